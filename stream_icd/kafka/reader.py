"""Read a topic without a group: to follow it, or to replay what it holds. Nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal

from kafka import TopicPartition
from kafka import errors as client

from stream_icd.errors import BadSettings, ClientStuck, OffsetGone, RecordUndecodable
from stream_icd.kafka.capabilities import recognise
from stream_icd.kafka.clients import open_admin, open_consumer
from stream_icd.kafka.held_records import HeldRecords
from stream_icd.kafka.poll import Poller
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.stop import Stop
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.translate import translated

Start = Literal["beginning", "latest"] | datetime | Mapping[int, int]
Until = Literal["forever", "end", "settled"]
Offsets = dict[TopicPartition, int]

POLL_MS = 200


@contextmanager
def open_reader(
    settings: KafkaSettings,
    topic: str,
    start: Start = "beginning",
    until: Until = "forever",
    limit: int | None = None,
    stop: Stop | None = None,
) -> Iterator[Iterator[Record]]:
    """Give an iterator over the records of `topic`; offsets are in order within a partition.

    Records of aborted transactions are not among them, where the broker can tell.

    Args:
        start: "beginning", "latest" (only what comes from now on), an aware datetime (only
            records with that timestamp or a later one), or `{partition: offset}`, the offset of
            the *next* record (other partitions: from the beginning). Fixed when the block is
            entered, whenever the first record is taken.
        until: "forever", or "end": what the topic holds when the block is entered; or "settled":
            also what open transactions hold back then, once they have ended.
        limit: at most so many records.
        stop: looked at five times a second.

    Raises:
        TopicMissing: there is no such topic.
        OffsetGone: the position was removed by retention, at the start or while reading;
            the reader never jumps over a gap by itself.
        MessageTooLarge: the next record is larger than what is taken as one answer (100 MB and
            `max_message_bytes`).
        RecordUndecodable: what the topic holds there cannot be decoded.
        ClientStuck: the client has not returned for `max_poll_interval_s`.
        BrokerUnavailable: nobody answers within `connect_timeout_s`. While following "forever",
            a broker that goes away is waited for instead.
        BadSettings: `start` is a naive datetime, or names a partition that does not exist.

    >>> with open_reader(KafkaSettings(), "t", until="end") as records:  # doctest: +SKIP
    ...     values = [record.value for record in records]
    """
    partitions = [
        TopicPartition(topic, p) for p in range(describe_topic(settings, topic).partitions)
    ]
    known = recognise(settings)
    consumer = open_consumer(settings)
    poller = Poller(consumer, stop, settings)
    try:
        with translated(f"read {topic}"):
            consumer.assign(partitions)
            begins = consumer.beginning_offsets(partitions)
            ends = consumer.end_offsets(partitions)
            if until == "settled" or not known.exact_end_offsets:
                ends = _high_watermarks(consumer, poller, ends, settings)
            positions = _positions(consumer, start, begins, ends, known.exact_times)
            for partition, offset in positions.items():
                consumer.seek(partition, offset)
        since_ms = start.timestamp() * 1000 if isinstance(start, datetime) else float("-inf")
        stops_at = {} if until == "forever" else ends
        held = HeldRecords(settings) if known.exact_end_offsets else None
        yield _limited(_records(consumer, poller, settings, since_ms, stops_at, stop, held), limit)
    finally:
        poller.close()


def _positions(
    consumer: Any, start: Start, begins: Offsets, ends: Offsets, exact_times: bool
) -> Offsets:
    if isinstance(start, str):
        return {"beginning": begins, "latest": ends}[start]
    if isinstance(start, datetime):
        return _at_time(consumer, start, begins, ends, exact_times)
    return _at_offsets(start, begins, ends)


def _at_time(
    consumer: Any, start: datetime, begins: Offsets, ends: Offsets, exact_times: bool
) -> Offsets:
    if start.tzinfo is None:
        raise BadSettings(f"the start {start.isoformat()} has no time zone: add one, such as Z")
    if not exact_times:
        return begins  # every record's timestamp is compared while reading
    milliseconds = max(0, round(start.timestamp() * 1000))
    found = consumer.offsets_for_times(dict.fromkeys(begins, milliseconds))
    return {p: found[p].offset if found.get(p) else ends[p] for p in begins}


def _at_offsets(start: Mapping[int, int], begins: Offsets, ends: Offsets) -> Offsets:
    positions = {p: start.get(p.partition, begin) for p, begin in begins.items()}
    unknown = set(start) - {p.partition for p in begins}
    if unknown:
        raise BadSettings(f"no partition {min(unknown)}: there are {len(begins)}, from 0")
    for p, offset in positions.items():
        if not begins[p] <= offset <= ends[p]:
            raise OffsetGone(
                f"{p.topic}[{p.partition}] holds the offsets from {begins[p]} up to, not "
                f"including, {ends[p]}: {offset} is not among them"
            )
    return positions


def _high_watermarks(
    consumer: Any, poller: Poller, ends: Offsets, settings: KafkaSettings
) -> Offsets:
    """The real ends, where the broker gives the start of the last batch, or of the first open
    transaction, for the end.

    Fetching there makes the broker tell; what is fetched is dropped by the seek that follows.
    """
    for partition, offset in ends.items():
        consumer.seek(partition, offset)
    deadline = time.monotonic() + settings.connect_timeout_s
    while any(consumer.highwater(partition) is None for partition in ends):
        if time.monotonic() > deadline:
            raise client.KafkaTimeoutError("the broker does not tell where its partitions end")
        poller.poll(20)
    return {partition: consumer.highwater(partition) for partition in ends}


def _records(
    consumer: Any,
    poller: Poller,
    settings: KafkaSettings,
    since_ms: float,
    ends: Offsets,
    stop: Stop | None,
    held: HeldRecords | None,
) -> Iterator[Record]:
    """Poll until stopped or, where there are `ends`, until every partition has reached its own."""
    heard = time.monotonic()
    while not (stop and stop.is_set()) and not _reached(consumer, ends):
        try:
            polled = _poll(consumer, poller)
        except ClientStuck:
            if stop and stop.is_set():
                return
            raise
        if held is not None:
            held.look(consumer)
        if polled:
            heard = time.monotonic()
        elif ends and time.monotonic() - heard > settings.connect_timeout_s:
            with open_admin(settings):  # raises when it is the broker that is gone
                heard = time.monotonic()
        for partition, records in polled.items():
            for record in records:
                if stop and stop.is_set():
                    return
                if record.timestamp >= since_ms and record.offset < ends.get(
                    partition, record.offset + 1
                ):
                    yield our_record(record)


def _reached(consumer: Any, ends: Offsets) -> bool:
    with translated("read"):
        return bool(ends) and all(consumer.position(p) >= end for p, end in ends.items())


def _poll(consumer: Any, poller: Poller) -> dict[TopicPartition, list[Any]]:
    try:
        with translated("read"):
            return poller.poll(POLL_MS)
    except OffsetGone as error:
        raise OffsetGone(f"{error}; {what_is_left(consumer)}") from error
    except RecordUndecodable as error:
        raise RecordUndecodable(f"{error}. To read on, start after them") from error


def what_is_left(consumer: Any) -> str:
    """A sentence on the offsets that the consumer's partitions still hold."""
    removed = "retention removed that position"
    try:
        begins = consumer.beginning_offsets(list(consumer.assignment()), timeout_ms=5000)
    except client.KafkaError:  # what is gone is the news; a broker that stands still is not
        return f"{removed}; what is left, the broker does not say now"
    starts = ", ".join(f"{p.topic}[{p.partition}] from {offset}" for p, offset in begins.items())
    return f"{removed}; what is left: {starts}"


def our_record(record: Any) -> Record:
    """The client's record in our own words."""
    headers = tuple((str(name), b"" if value is None else value) for name, value in record.headers)
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        headers,
    )


def _limited(records: Iterator[Record], limit: int | None) -> Iterator[Record]:
    if limit is not None and limit <= 0:
        return
    for taken, record in enumerate(records, start=1):
        yield record
        if taken == limit:
            return
