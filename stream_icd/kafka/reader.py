"""Read a topic without a group, to follow or to replay it. Nothing is committed."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Literal

from stream_icd.core.errors import (
    BadSettings,
    BrokerUnavailable,
    ClientStuck,
    OffsetGone,
    RecordUndecodable,
    StreamIcdError,
    TopicMissing,
)
from stream_icd.core.printable import printable
from stream_icd.kafka.connect import connect
from stream_icd.kafka.group.held import HeldRecords
from stream_icd.kafka.port import Offsets, Polled, Reader, TopicPartition
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import look_up
from stream_icd.kafka.waiting import BUSY_S, Pace, Stop

Start = Literal["beginning", "latest"] | datetime | Mapping[int, int]
Until = Literal["forever", "end", "settled"]

_ANSWER_TIMEOUT_S = 5.0
_RETRY_S = 1.0
# A fetch from the end of a partition waits for records until its poll ends.
_LOOK_S = 0.002

# The standard library's: without a configuration it writes warnings to standard error, where they
# do not mix with results.
_log = logging.getLogger(__name__)


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

    Records of aborted transactions are left out, if the broker can identify them. With "forever",
    partitions that are added to the topic are read too, from their beginning, within a minute.

    Args:
        start: "beginning", "latest" (only new records), an aware datetime (only records with that
            timestamp or a later one), or `{partition: offset}`, the offset of the *next* record
            (other partitions: from the beginning). The position is fixed on entering the block; if
            retention removes the beginning before it is read, "beginning" is what is left then.
        until: "forever"; "end": the records in the topic when the block is entered; or "settled":
            also the records of transactions that are open then, once they have ended.
        stop: checked five times a second, and every two seconds where nothing came for a while.
        only: read these partitions only.

    Raises:
        TopicMissing: there is no such topic, or it was deleted and created again while reading.
        OffsetGone: retention removed the position, at the start or while reading; the reader
            never skips a gap by itself.
        MessageTooLarge, RecordUndecodable, ClientStuck: as `run_consumer`.
        BrokerUnavailable: no broker answers within `connect_timeout_s`. With "forever", the reader
            waits for an unavailable broker instead.
        BadSettings: `start` is a naive datetime, or names a partition that does not exist.

    >>> with open_reader(KafkaSettings(), "t", until="end") as records:  # doctest: +SKIP
    ...     values = [record.value for record in records]
    """
    with closing(TopicReader(settings, topic, stop, only)) as reader:
        records = reader.records(start, until)
        yield records if limit is None else itertools.islice(records, max(0, limit))


class TopicReader:
    """Reads the records of a topic, several times if you like, over one connection.

    Its arguments and errors are those of `open_reader`. Call `close` at the end.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        stop: Stop | None = None,
        only: Collection[int] | None = None,
    ) -> None:
        existing, self._capabilities = look_up(settings, topic)
        self._settings = settings
        self._stop = stop
        self._topic, self._reads_all = topic, only is None
        self._partitions = [
            TopicPartition(topic, number)
            for number in range(existing.partitions)
            if only is None or number in only
        ]
        self._reader = connect(settings).reader(stop)
        self._reader.assign(self._partitions)

    def close(self) -> None:
        self._reader.close()

    def records(self, start: Start = "beginning", until: Until = "forever") -> Iterator[Record]:
        """Iterate over the records from `start` on; it and the end are fixed by this call."""
        begins = self._reader.begins(self._partitions)
        # Asked here, not in the iterator: the end is the one at the call, however late the caller
        # takes the first record.
        ends = self._reader.ends(self._partitions)
        if until == "settled" or not self._capabilities.exact_end_offsets:
            ends = self._high_watermarks(ends)
        for partition, offset in self._positions(start, begins, ends).items():
            self._reader.seek(partition, offset)
        since_ms = start.timestamp() * 1000 if isinstance(start, datetime) else -inf
        begun = dict(begins) if start == "beginning" else {}
        return self._polled(since_ms, {} if until == "forever" else ends, begun)

    def next_offsets(self) -> dict[int, int]:
        """Where each partition is read next, as `start` takes it."""
        return {p.partition: self._reader.position(p) or 0 for p in self._partitions}

    def _positions(self, start: Start, begins: Offsets, ends: Offsets) -> Offsets:
        if isinstance(start, str):
            return {"beginning": begins, "latest": ends}[start]
        if not isinstance(start, datetime):
            return _at_offsets(start, begins, ends)
        if start.tzinfo is None:
            raise BadSettings(f"the start {start.isoformat()} has no time zone: add one, such as Z")
        if not self._capabilities.exact_times:
            return begins  # each record's timestamp is checked while reading
        return ends | self._reader.at_time(begins, max(0, round(start.timestamp() * 1000)))

    def _high_watermarks(self, ends: Offsets) -> Offsets:
        """The real ends, for brokers that report the start of the last batch, or of the first open
        transaction, as the end: a fetch there reveals it, and the seek that follows drops its
        records."""
        self._reader.assign([])  # forget the ends of earlier fetches
        self._reader.assign(self._partitions)
        for partition, offset in ends.items():
            self._reader.seek(partition, offset)
        deadline = time.monotonic() + self._settings.connect_timeout_s
        while True:
            fetched = {partition: self._reader.fetched_end(partition) for partition in ends}
            high_watermarks = {p: end for p, end in fetched.items() if end is not None}
            if high_watermarks.keys() == ends.keys():
                return high_watermarks
            if time.monotonic() > deadline:
                raise BrokerUnavailable("the broker does not tell where its partitions end")
            self._reader.poll(_LOOK_S)

    def _polled(self, since_ms: float, ends: Offsets, begun: Offsets) -> Iterator[Record]:
        """Poll until stopped or, if there are `ends`, until every partition has reached its end."""
        watch = HeldRecords(self._settings) if self._capabilities.exact_end_offsets else None
        heard, pace = time.monotonic(), Pace(time.monotonic)
        while not (self._is_stopped() or (ends and self._reached(ends))):
            if self._reads_all and not ends:
                self._take_new_partitions()
            try:
                polled = _poll(self._reader, BUSY_S if ends else pace.wait_s)
            except ClientStuck:
                if self._is_stopped():
                    return
                raise
            except OffsetGone:
                if self._begin_later(begun):
                    continue
                raise
            if watch is not None:
                watch.look(self._reader)
            if polled:
                heard = time.monotonic()
                pace.saw_work()
            elif ends and time.monotonic() - heard > self._settings.connect_timeout_s:
                with connect(self._settings).admin():  # raises if the broker is unavailable
                    heard = time.monotonic()
            for partition, records in polled.items():
                for record in records:
                    if self._is_stopped():
                        return
                    if record.timestamp_ms >= since_ms and record.offset < ends.get(partition, inf):
                        yield record

    def _begin_later(self, begun: Offsets) -> bool:
        """Begin at what is left of partitions whose beginning was removed before it was read."""
        begins = self._reader.begins(begun) if begun else {}
        gone = [p for p, at in begun.items() if self._reader.position(p) == at < begins[p]]
        for partition in gone:
            begun[partition] = begins[partition]
            self._reader.seek(partition, begins[partition])
        return bool(gone)

    def _take_new_partitions(self) -> None:
        numbers = range(len(self._partitions), self._reader.partitions(self._topic))
        if added := [TopicPartition(self._topic, number) for number in numbers]:
            self._partitions += added
            self._reader.assign(self._partitions)
            for partition in added:  # `assign` keeps the positions of the others
                self._reader.seek(partition, 0)

    def _is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _reached(self, ends: Offsets) -> bool:
        return all((self._reader.position(p) or 0) >= end for p, end in ends.items())


def _at_offsets(start: Mapping[int, int], begins: Offsets, ends: Offsets) -> Offsets:
    positions = {p: start.get(p.partition, begin) for p, begin in begins.items()}
    unknown = set(start) - {p.partition for p in begins}
    if unknown:
        raise BadSettings(f"no partition {min(unknown)}: there are {len(begins)}, from 0")
    for p, offset in positions.items():
        if not begins[p] <= offset <= ends[p]:
            raise OffsetGone(
                f"{p} holds the offsets from {begins[p]} up to, not including, {ends[p]}; it does "
                f"not hold {offset}"
            )
    return positions


def _poll(reader: Reader, timeout_s: float) -> Polled:
    try:
        return reader.poll(timeout_s)
    except OffsetGone as error:
        raise OffsetGone(f"{error}; {what_is_left(reader)}") from error
    except RecordUndecodable as error:
        raise RecordUndecodable(f"{error}. To continue, start after them") from error


def what_is_left(reader: Reader) -> str:
    """A sentence about the offsets that the reader's partitions still hold."""
    removed = "retention removed that position, or the broker lost it"
    try:
        begins = reader.begins(reader.assigned(), _ANSWER_TIMEOUT_S)
    except StreamIcdError:  # report the removed offset, not the broker's silence
        return f"{removed}; what is left, the broker does not say now"
    remaining = ", ".join(f"{partition} from {offset}" for partition, offset in begins.items())
    return f"{removed}; what is left: {remaining}"


@dataclass(slots=True)
class Following:
    """Reads a topic for ever: waits for a broker that restarts, and for a topic that is missing.

    After any other error, it waits as well, and continues with the same record.
    """

    settings: KafkaSettings
    topic: str
    # Called with each record, in the order of its partition; again if it raises.
    on_record: Callable[[Record], None]
    stop: threading.Event  # ends `run`
    start: Start = "beginning"  # as for `open_reader`
    trouble: str = ""  # why nothing is read at the moment; empty while all is well
    # Set when the records that the topic held at first were read.
    caught_up: threading.Event = field(default_factory=threading.Event)
    _next: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Read until `stop`, in a thread of its own."""
        while not self.stop.is_set():
            try:
                with closing(TopicReader(self.settings, self.topic, self.stop)) as topic:
                    self._read(topic, "end")
                    self.trouble = ""
                    self.caught_up.set()
                    self._read(topic, "forever")
            # A later topic has other records, and perhaps fewer partitions.
            except (BadSettings, OffsetGone, TopicMissing) as error:
                self._complain(error)
                self._next, self.start = {}, "beginning"
            except Exception as error:
                self._complain(error)
            self.caught_up.set()  # nothing waits for a topic that cannot be read
            self.stop.wait(_RETRY_S)

    def _read(self, topic: TopicReader, until: Until) -> None:
        records = topic.records(dict(self._next) or self.start, until)
        if self.start != "beginning":  # the next read continues there, and misses nothing
            self._next = topic.next_offsets()
        for record in records:
            self.on_record(record)
            # Not before: a record that raises comes again.
            self._next[record.partition] = record.offset + 1
            self.trouble = ""

    def _complain(self, error: Exception) -> None:
        """Note the trouble; log it once, with its traceback if nobody expects it."""
        trouble = str(error) or type(error).__name__
        if self.trouble != trouble and not self.stop.is_set():
            unexpected = not isinstance(error, StreamIcdError)
            _log.warning(
                "waiting for topic %s: %s", self.topic, printable(trouble), exc_info=unexpected
            )
        self.trouble = trouble
