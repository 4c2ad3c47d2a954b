"""Reads the events topic, which is the only state of a tracker."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

import structlog

from stream_icd.core.errors import BadEvents, BadInput, BadSettings, OffsetGone
from stream_icd.core.events import CommunityEvents
from stream_icd.core.headers import Headers
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.tracing import context_of
from stream_icd.streaming.subscribers.seen_results import SeenResults, result_of
from stream_icd.wire.events import decode_events, is_late
from stream_icd.wire.message import graph_name_of

_A_RECORD = 3000
"""Bytes of a record's Python objects and headers, about."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """An operator has reset a graph, with a record that has the graph's key and no value."""

    graph: str

    def record(self, topic: str) -> OutgoingRecord:
        """Return the record that makes trackers reset the graph."""
        return OutgoingRecord(topic, value=None, key=self.graph.encode())


@dataclass(slots=True)
class EventsTopic:
    """Reads the new records of the topic since the last read; the first time, all records.

    `before`: only records before these offsets, by partition, and no others. None: all there are.
    """

    settings: KafkaSettings
    topic: str
    graphs: Collection[str] | None  # read only these graphs' events; None for all
    windows: int  # how many of a graph's last windows to return
    reader: MessageReader
    most_bytes: float = inf  # what is read before it is returned
    before: Mapping[int, int] | None = None
    # Graphs of which windows are missing, since all were too much; those of others are later.
    left_out: set[str] = field(default_factory=set)
    _positions: dict[int, int] = field(default_factory=dict)
    _first_ids: dict[bytes | None, int] = field(default_factory=dict)
    _headers: dict[bytes | None, Headers] = field(default_factory=dict)

    def news(self, seen_results: SeenResults) -> Iterator[CommunityEvents | Forgotten]:
        """Yield the last tracked windows of each graph with new events, in order; add them to
        `seen_results`.

        If a graph was reset, `Forgotten` precedes its later windows. Raises `TopicMissing`,
        `BrokerUnavailable`.
        """
        latest: dict[bytes | None, deque[Record]] = {}
        self.left_out.clear()
        try:
            self._read(seen_results, latest)
        # Retention deleted it, perhaps meanwhile, or it is another topic, perhaps with fewer
        # partitions: what is there suffices.
        except (OffsetGone, BadSettings):
            self._positions.clear()
            self._read(seen_results, latest)
        for records in latest.values():
            for record in records:
                self._headers.pop(record.key, None)
                if context_of(record.headers):
                    self._headers[record.key] = record.headers
                try:
                    if record.value is None:
                        yield Forgotten(graph_name_of(record.key, self.reader.limits, BadEvents))
                    else:
                        yield self.reader.decoded(record, decode_events)
                except BadInput as error:
                    log = structlog.get_logger()
                    log.warning("not an events message", place=record.place, reason=str(error))

    def first_id(self, graph: str) -> int:
        """Return the first stable id above those of all records of a graph that were read."""
        return self._first_ids.get(graph.encode(), 0)

    def headers(self, key: bytes | None) -> Headers:
        """Return the headers of a graph's last events that were read, if they have a trace."""
        return self._headers.get(key, ())

    def _read(self, seen_results: SeenResults, latest: dict[bytes | None, deque[Record]]) -> None:
        """Add the new records to the latest ones of each graph, and to `seen_results`."""
        keys = None if self.graphs is None else {graph.encode() for graph in self.graphs}
        n_bytes = 0
        start, ends = self._positions.copy(), self.before or {}
        only = None if self.before is None else tuple(self.before)
        # A broker may say that a transaction is committed before its records can be read.
        read = open_reader(self.settings, self.topic, start, until="settled", only=only)
        with read as records:
            for record in records:
                self._positions[record.partition] = record.offset + 1
                if record.offset >= ends.get(record.partition, inf):
                    continue
                if keys is not None and record.key not in keys:
                    continue
                # Also of a record that cannot be decoded, or is late: its ids were given.
                text = dict(record.headers).get("icd_next_community", b"")
                next_id = int(text) if text.isdigit() and len(text) < 16 else 0
                self._first_ids[record.key] = max(next_id, self._first_ids.get(record.key, 0))
                newest = latest.get(record.key, deque[Record](maxlen=self.windows + 1))
                if record.value is None:
                    seen_results.forget(record.key)
                    changed = deque([record], newest.maxlen)
                elif seen_results.is_new(result_of(record)) and not is_late(record.headers):
                    changed = newest.copy()
                    if newest and result_of(newest[-1]).name == result_of(record).name:
                        changed.pop()  # replaced by this revision
                    changed.append(record)
                else:
                    continue
                n_bytes += _size(changed) - _size(latest.pop(record.key, ()))
                latest[record.key] = changed  # the latest are the last
                if record.value is None or len(changed) == changed.maxlen:
                    self.left_out.discard(record.key_text)
                while n_bytes > self.most_bytes and len(latest) > 1:
                    oldest = latest.pop(next(iter(latest)))
                    n_bytes -= _size(oldest)
                    self.left_out.add(oldest[0].key_text)


def _size(records: Iterable[Record]) -> int:
    return sum(_A_RECORD + len(record.value or b"") for record in records)
