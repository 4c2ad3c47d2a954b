"""Read a topic without a group, to follow or to replay it. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

from stream_icd.errors import (
    BadSettings,
    BrokerUnavailable,
    ClientStuck,
    OffsetGone,
    RecordUndecodable,
    StreamIcdError,
)
from stream_icd.kafka.clock import BUSY_S, Pace, Stop
from stream_icd.kafka.connect import connect, recognise
from stream_icd.kafka.group.hanging import HeldRecords
from stream_icd.kafka.port.broker import Polled, Reader
from stream_icd.kafka.port.topic import Offsets, TopicPartition
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic

Start = Literal["beginning", "latest"] | datetime | Mapping[int, int]
Until = Literal["forever", "end", "settled"]

ANSWER_TIMEOUT_S = 5.0


@contextmanager
def open_reader(
    settings: KafkaSettings,
    topic: str,
    start: Start = "beginning",
    until: Until = "forever",
    limit: int | None = None,
    stop: Stop | None = None,
    only: Collection[int] | None = None,
) -> Iterator[Iterator[Record]]:
    """Open an iterator over the records of `topic`; offsets are in order within a partition.

    Records of aborted transactions are left out, if the broker can identify them.

    Args:
        start: "beginning", "latest" (only new records), an aware datetime (only records with that
            timestamp or a later one), or `{partition: offset}`, the offset of the *next* record
            (other partitions: from the beginning). The position is fixed when the block is
            entered, not when the first record is read.
        until: "forever"; "end": the records in the topic when the block is entered; or "settled":
            also the records of transactions that are open then, once they have ended.
        limit: the maximum number of records.
        stop: checked five times a second, and every two seconds where nothing came for a while.
        only: read these partitions only. Default: all.

    Raises:
        TopicMissing: there is no such topic.
        OffsetGone: retention removed the position, at the start or while reading; the reader
            never skips a gap by itself.
        MessageTooLarge: the next record is larger than the largest accepted fetch response (100 MB
            and `max_message_bytes`).
        RecordUndecodable: the next records cannot be decoded.
        ClientStuck: the client has not returned for `max_poll_interval_s`.
        BrokerUnavailable: no broker answers within `connect_timeout_s`. With "forever", the reader
            waits for an unavailable broker instead.
        BadSettings: `start` is a naive datetime, or names a partition that does not exist.

    >>> with open_reader(KafkaSettings(), "t", until="end") as records:  # doctest: +SKIP
    ...     values = [record.value for record in records]
    """
    partitions = [
        TopicPartition(topic, p)
        for p in range(describe_topic(settings, topic).partitions)
        if only is None or p in only
    ]
    known = recognise(settings)
    reader = connect(settings).reader(stop)
    try:
        reader.assign(partitions)
        begins = reader.begins(partitions)
        ends = reader.ends(partitions)
        if until == "settled" or not known.exact_end_offsets:
            ends = _high_watermarks(reader, ends, settings)
        for partition, offset in _positions(reader, start, begins, ends, known.exact_times).items():
            reader.seek(partition, offset)
        since_ms = start.timestamp() * 1000 if isinstance(start, datetime) else float("-inf")
        stops_at = {} if until == "forever" else ends
        held = HeldRecords(settings) if known.exact_end_offsets else None
        yield _limited(_records(reader, settings, since_ms, stops_at, stop, held), limit)
    finally:
        reader.close()


def _positions(
    reader: Reader, start: Start, begins: Offsets, ends: Offsets, exact_times: bool
) -> Offsets:
    if isinstance(start, str):
        return {"beginning": begins, "latest": ends}[start]
    if isinstance(start, datetime):
        return _at_time(reader, start, begins, ends, exact_times)
    return _at_offsets(start, begins, ends)


def _at_time(
    reader: Reader, start: datetime, begins: Offsets, ends: Offsets, exact_times: bool
) -> Offsets:
    if start.tzinfo is None:
        raise BadSettings(f"the start {start.isoformat()} has no time zone: add one, such as Z")
    if not exact_times:
        return begins  # each record's timestamp is checked while reading
    return ends | reader.at_time(begins, max(0, round(start.timestamp() * 1000)))


def _at_offsets(start: Mapping[int, int], begins: Offsets, ends: Offsets) -> Offsets:
    positions = {p: start.get(p.partition, begin) for p, begin in begins.items()}
    unknown = set(start) - {p.partition for p in begins}
    if unknown:
        raise BadSettings(f"no partition {min(unknown)}: there are {len(begins)}, from 0")
    for p, offset in positions.items():
        if not begins[p] <= offset <= ends[p]:
            raise OffsetGone(
                f"{p.topic}[{p.partition}] holds the offsets from {begins[p]} up to, not "
                f"including, {ends[p]}; it does not hold {offset}"
            )
    return positions


def _high_watermarks(reader: Reader, ends: Offsets, settings: KafkaSettings) -> Offsets:
    """The real ends, for brokers that report the start of the last batch, or of the first open
    transaction, as the end.

    A fetch at that offset reveals the real end; the seek that follows drops the fetched records.
    """
    for partition, offset in ends.items():
        reader.seek(partition, offset)
    deadline = time.monotonic() + settings.connect_timeout_s
    while True:
        found = {partition: reader.fetched_end(partition) for partition in ends}
        known = {partition: end for partition, end in found.items() if end is not None}
        if known.keys() == ends.keys():
            return known
        if time.monotonic() > deadline:
            raise BrokerUnavailable("the broker does not tell where its partitions end")
        reader.poll(0.02)


def _records(
    reader: Reader,
    settings: KafkaSettings,
    since_ms: float,
    ends: Offsets,
    stop: Stop | None,
    held: HeldRecords | None,
) -> Iterator[Record]:
    """Poll until stopped or, if there are `ends`, until every partition has reached its end."""
    heard, pace = time.monotonic(), Pace(time.monotonic)
    while not (stop and stop.is_set()) and not _reached(reader, ends):
        try:
            polled = _poll(reader, BUSY_S if ends else pace.wait_s)
        except ClientStuck:
            if stop and stop.is_set():
                return
            raise
        if held is not None:
            held.look(reader)
        if polled:
            heard = time.monotonic()
            pace.saw_work()
        elif ends and time.monotonic() - heard > settings.connect_timeout_s:
            with connect(settings).admin():  # raises if the broker is unavailable
                heard = time.monotonic()
        for partition, records in polled.items():
            for record in records:
                if stop and stop.is_set():
                    return
                if record.timestamp_ms >= since_ms and record.offset < ends.get(
                    partition, record.offset + 1
                ):
                    yield record


def _reached(reader: Reader, ends: Offsets) -> bool:
    at = {partition: reader.position(partition) for partition in ends}
    return bool(ends) and all((at[p] or 0) >= end for p, end in ends.items())


def _poll(reader: Reader, timeout_s: float) -> Polled:
    try:
        return reader.poll(timeout_s)
    except OffsetGone as error:
        raise OffsetGone(f"{error}; {what_is_left(reader)}") from error
    except RecordUndecodable as error:
        raise RecordUndecodable(f"{error}. To continue, start after them") from error


def what_is_left(reader: Reader) -> str:
    """A sentence about the offsets that the reader's partitions still hold."""
    removed = "retention removed that position"
    try:
        begins = reader.begins(reader.assigned(), ANSWER_TIMEOUT_S)
    except StreamIcdError:  # report the removed offset, not the broker's silence
        return f"{removed}; what is left, the broker does not say now"
    return f"{removed}; what is left: " + ", ".join(
        f"{partition} from {offset}" for partition, offset in begins.items()
    )


def _limited(records: Iterator[Record], limit: int | None) -> Iterator[Record]:
    if limit is not None and limit <= 0:
        return
    for taken, record in enumerate(records, start=1):
        yield record
        if taken == limit:
            return
