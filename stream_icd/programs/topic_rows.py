"""Reads rows from a topic: one JSON object per record, such as a mail or a taxi's position."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal

from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic
from stream_icd.sources.source import OnBadRow, Stop
from stream_icd.sources.tables import RawRows, rows_of_json
from stream_icd.sources.windows import Quiet

BATCH = 10_000
LOOK_EVERY_S = 0.2


def read_topic_rows(
    settings: KafkaSettings,
    topic: str,
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    *,
    since: datetime | None = None,
    until: Literal["forever", "end"] = "forever",
    quiet_after_s: float | None = None,
    stop: Stop,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[RawRows | Quiet]:
    """Yield the topic's rows as they arrive, each batch from one partition.

    Args:
        since: only records with this timestamp or a later one.
        quiet_after_s: report partitions without rows for this number of seconds; default: never.

    Raises:
        TopicMissing, OffsetGone, BrokerUnavailable: see these classes.
    """
    partitions = range(describe_topic(settings, topic).partitions)
    heard = dict.fromkeys(partitions, monotonic())
    quiet: frozenset[int] = frozenset()
    for records in _batches(settings, topic, since, until, stop):
        by_partition: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record)
        now = monotonic()
        heard |= dict.fromkeys(by_partition, now)
        if quiet_after_s is not None:
            silent = frozenset(p for p in partitions if now - heard[p] >= quiet_after_s)
            if silent != quiet:
                quiet = silent
                yield Quiet(quiet)
        for partition, of_one in sorted(by_partition.items()):
            values = [(record.offset, record.value) for record in of_one]
            yield rows_of_json(f"{topic}[{partition}]", values, columns, on_bad_row, partition)


def _batches(
    settings: KafkaSettings,
    topic: str,
    since: datetime | None,
    until: Literal["forever", "end"],
    stop: Stop,
) -> Iterator[list[Record]]:
    """Yield what has arrived, at least every `LOOK_EVERY_S`, even if it is nothing.

    A thread reads, since the reader blocks until a record arrives.
    """
    arrived: queue.Queue[Record | BaseException | None] = queue.Queue(BATCH)
    enough = threading.Event()

    def read() -> None:
        try:
            with open_reader(
                settings, topic, since or "beginning", until=until, stop=enough
            ) as records:
                for record in records:
                    _put(arrived, record, enough)
            _put(arrived, None, enough)
        except BaseException as error:  # raised again in the waiting thread
            _put(arrived, error, enough)

    thread = threading.Thread(target=read, name=f"read {topic}", daemon=True)
    thread.start()
    try:
        while not stop.is_set():
            taken, ended = _take(arrived)
            yield taken
            if ended:
                return
    finally:
        enough.set()
        thread.join(timeout=5.0)


def _put(
    arrived: queue.Queue[Record | BaseException | None],
    item: Record | BaseException | None,
    enough: threading.Event,
) -> None:
    while not enough.is_set():
        try:
            arrived.put(item, timeout=LOOK_EVERY_S)
            return
        except queue.Full:
            continue


def _take(
    arrived: queue.Queue[Record | BaseException | None],
) -> tuple[list[Record], bool]:
    """Return what is available, and whether the reader has ended."""
    taken: list[Record] = []
    try:
        item = arrived.get(timeout=LOOK_EVERY_S)
        while True:
            if item is None:
                return taken, True
            if isinstance(item, BaseException):
                raise item
            taken.append(item)
            if len(taken) == BATCH:
                return taken, False
            item = arrived.get_nowait()
    except queue.Empty:
        return taken, False
