"""Snapshots out of timed rows, in files or a topic, by a producer's options."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Literal

import structlog

from stream_icd.commands.programs.options import RowOptions
from stream_icd.commands.programs.producer import ProducerRun
from stream_icd.core.printable import listed
from stream_icd.core.snapshot import EPOCH
from stream_icd.core.times import parse_wait
from stream_icd.kafka.reader import Start, open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.waiting import in_background
from stream_icd.sources.source import OnBadRow, RawRows, Source
from stream_icd.sources.tables import read_rows, rows_of_json, time_column
from stream_icd.sources.timed_rows import Columns, Number, sorted_by_time
from stream_icd.sources.windows import (
    OnOpen,
    Quiet,
    TimedRows,
    Windowing,
    windowed_snapshots,
)
from stream_icd.wire.limits import Limits

_BATCH = 10_000
_LOOK_EVERY_S = 0.2
_END_S = 5.0
_OTHER_NAMES = (
    ". Options say how yours are called (--help); --columns names those of a file whose first line "
    "is a row"
)


def windowed_source(
    options: RowOptions,
    settings: Windowing,
    ids: Mapping[str, str],
    numbers: Mapping[str, Number],
    run: ProducerRun,
    reach: timedelta,
) -> Source:
    """Open the snapshots of a run, from columns of ids and numbers (see `Columns`).

    A file is read from its beginning: snapshots that were already sent are recognised by name. A
    topic is read from where the windows after the last one sent, and the rows they wait for, may
    begin, `reach` before its end: events happen before the broker gives them a timestamp.
    Raises `SourceNotFound`, `BadSettings`, `BrokerError`.
    """
    header = options.header
    column = options.time or time_column(options.file_columns) or "t"
    columns = Columns(
        column,
        ids,
        numbers,
        time_unit=options.time_unit,
        zone=options.zone,
        id_kind=options.ids,
        kind_before=partial(run.kind_before, options.graph),
        time_format=options.time_format,
    )
    if unused := [name for name in options.file_columns if name not in columns.names]:
        structlog.get_logger().warning("columns are not used", columns=listed(unused))
    n_streams, after, limits = 1, None, Limits()
    on_open: OnOpen | None = None
    rows: Iterable[TimedRows | Quiet]
    if options.path is not None:
        raw = read_rows(
            options.path, columns.names, run.bad_rows, header=header, way_out=_OTHER_NAMES
        )
        rows = columns.read(raw, run.bad_rows)
        if options.sort:
            rows = sorted_by_time(takewhile(lambda _: not run.stop.is_set(), rows), limits)
    else:
        assert options.topic is not None
        after, quiet = run.sent_before.ends.get(options.graph), options.quiet_after
        records = read_topic_rows(
            run.settings,
            options.topic,
            columns.names,
            run.bad_rows,
            since=None if after is None else EPOCH + max(after - EPOCH - reach, timedelta(0)),
            until=options.until,
            quiet_after_s=None if quiet is None else parse_wait("--quiet-after", quiet),
            stop=run.stop,
        )
        rows = columns.read(records, run.bad_rows)
        n_streams = describe_topic(run.settings, options.topic).partitions
        on_open = None if options.flush else run.on_open()
    of_graph = options.graph.replace("/", "%2F")  # a file, not a folder
    return windowed_snapshots(
        rows,
        settings,
        n_streams=n_streams,
        after=after,
        on_late=run.on_late(options.late_rows or Path(f"{of_graph}.late.jsonl")),
        on_open=on_open,
        limits=limits,
        count=run.count,
        stop=run.stop,
    )


def read_topic_rows(
    settings: KafkaSettings,
    topic: str,
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    *,
    since: datetime | Mapping[int, int] | None = None,
    until: Literal["forever", "end"] = "forever",
    quiet_after_s: float | None = None,
    optional: Collection[str] = (),
    stop: threading.Event,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[RawRows | Quiet]:
    """Yield a topic's rows (JSON objects) as they arrive, each batch from one partition.

    Those with a timestamp from `since` on, or from these offsets; an object may lack the `optional`
    columns. Partitions without rows for `quiet_after_s` are reported as quiet, and again and again
    while all are: by the clock, or, with "end", once at the end, by how far the timestamp of their
    last row is behind the newest one. Raises `TopicMissing`, `OffsetGone`, `BrokerUnavailable`.
    """
    heard = dict.fromkeys(range(describe_topic(settings, topic).partitions), monotonic())
    quiet: frozenset[int] = frozenset()
    newest_ms = dict.fromkeys(heard, -math.inf)
    for records in _batches(settings, topic, since, until, stop):
        by_partition: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record)
        now = monotonic()
        added = range(len(heard), max(by_partition, default=0) + 1)
        heard |= dict.fromkeys([*added, *by_partition], now)
        if quiet_after_s is not None and until == "forever":
            silent = frozenset(p for p, at in heard.items() if now - at >= quiet_after_s)
            if silent != quiet or len(silent) == len(heard):
                quiet = silent
                yield Quiet(quiet)
        for partition, arrived in sorted(by_partition.items()):
            newest_ms[partition] = max(
                newest_ms.get(partition, -math.inf), *(r.timestamp_ms for r in arrived)
            )
            values = [(record.offset, record.value) for record in arrived]
            yield rows_of_json(
                f"{topic}[{partition}]", values, columns, on_bad_row, partition, optional
            )
    if quiet_after_s is not None and until == "end":
        # How fast each partition was read says nothing, and the next run must decide alike.
        before = max(newest_ms.values()) - 1000 * quiet_after_s
        yield Quiet(frozenset(p for p, at in newest_ms.items() if at <= before))


def _batches(
    settings: KafkaSettings,
    topic: str,
    since: datetime | Mapping[int, int] | None,
    until: Literal["forever", "end"],
    stop: threading.Event,
) -> Iterator[list[Record]]:
    """Yield what a thread has read, at least every `_LOOK_EVERY_S`, even if it is nothing."""
    arrived: queue.Queue[Record] = queue.Queue(_BATCH)
    enough, failed = threading.Event(), list[BaseException]()

    def read() -> None:
        start: Start = since or "beginning"
        try:
            with open_reader(settings, topic, start, until, stop=enough) as records:
                for record in records:
                    _put(arrived, record, enough)
        except BaseException as error:  # raised below, in the thread that takes the rows
            failed.append(error)

    with in_background(read, f"read {topic}", enough, _END_S) as thread:
        while not stop.is_set():
            ended = not thread.is_alive()  # before the queue is looked at: then it holds all
            yield _take(arrived)
            if ended and arrived.empty():
                break
        if failed and not stop.is_set():  # after a stop, a broken connection loses nothing
            raise failed[0]


def _put(arrived: queue.Queue[Record], record: Record, enough: threading.Event) -> None:
    while not enough.is_set():  # in short waits: nobody may empty the queue any more
        with suppress(queue.Full):
            arrived.put(record, timeout=_LOOK_EVERY_S)
            return


def _take(arrived: queue.Queue[Record]) -> list[Record]:
    records: list[Record] = []
    with suppress(queue.Empty):
        while len(records) < _BATCH:
            records.append(arrived.get(timeout=0 if records else _LOOK_EVERY_S))
    return records
