"""Publishes a source to Kafka: each snapshot once; all deliveries checked.

The topic is the only state: it holds what was acknowledged, however the producer ended.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from threading import Event
from typing import Protocol

from stream_icd.core.errors import BadCommunities, BadInput
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.times import too_far_ahead, utc_now
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import LABELS, SNAPSHOTS
from stream_icd.sources.source import Source
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import EVENT_TYPES, EventHeaders, graph_name_of
from stream_icd.wire.snapshots import (
    check_snapshot_headers,
    decode_snapshot,
    encode_snapshot,
)

_Name = tuple[str, str]
"""Source and id of a snapshot, without the number of a correction."""

_CORRECTION = re.compile(r"[#;]correction=([1-9][0-9]{0,8})$")
"""The end of the `ce_source` of a correction: CloudEvents with one source and id are one event, and
the `ce_id` of a snapshot is its own."""

_MOST_NUMBERED = 100_000
"""Snapshots, those sent last, whose corrections are numbered after one another."""


@dataclass(frozen=True, slots=True)
class SentBefore:
    """The snapshots of a topic, by their headers."""

    # Source and id of each graph's snapshots, with the hash of its content, "" if not known.
    names: dict[str, dict[_Name, str]] = field(default_factory=lambda: defaultdict(dict))
    # The latest window end of each graph, except windows too far ahead of `now`.
    ends: dict[str, datetime] = field(default_factory=dict)
    # Partition and offset of the snapshot of this window.
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    now: datetime = field(default_factory=utc_now)
    limits: Limits = field(default_factory=Limits)
    correct: bool = False  # whether a snapshot that is there with other content counts as missing
    # Number of the last correction of a snapshot, and the hash of its content.
    _numbered: dict[tuple[str, _Name], tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        settings: KafkaSettings,
        topic: str = SNAPSHOTS,
        *,
        correct: bool = False,
        stop: Event | None = None,
    ) -> SentBefore:
        """Read `topic`, until `stop`; raises as `open_reader`."""
        sent_before = cls(correct=correct)
        with open_reader(settings, topic, until="end", stop=stop) as records:
            for record in records:
                sent_before.add(record)
        return sent_before

    def last_of(self, graph: str, settings: KafkaSettings, topic: str) -> Snapshot | None:
        """Read the graph's snapshot of the latest window; None if the topic holds none.

        Raises:
            BadInput: it cannot be read.
            OffsetGone, StoreUnreachable, BrokerError: the topic or the claim store does not have
                it, or does not answer.
        """
        if (place := self.places.get(graph)) is None:
            return None
        partition, offset = place
        start = {partition: offset}
        with open_reader(settings, topic, start, "end", limit=1, only=start.keys()) as records:
            for record in records:
                return MessageReader().decoded(record, decode_snapshot)
        return None

    def __contains__(self, snapshot: object) -> bool:
        if not isinstance(snapshot, Snapshot) or self._content(snapshot) is None:
            return False
        return not (self.correct and self.is_changed(snapshot))

    def is_changed(self, snapshot: Snapshot) -> bool:
        """Return whether the topic holds the snapshot with other content."""
        return self._content(snapshot) not in (None, "", snapshot.content)

    def is_behind(self, snapshot: Snapshot) -> bool:
        """Return whether it is new, and the topic holds a window of its graph that ends later."""
        last = self.ends.get(snapshot.graph, snapshot.window.end)
        return self._content(snapshot) is None and snapshot.window.end < last

    def numbered(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot that is sent: if it corrects one, its source has another number.

        It counts as sent from now on.
        """
        graph, name = snapshot.graph, _name(snapshot.source, snapshot.id)
        # Popped, and put back at the end: the first of the dictionary is the one sent longest ago.
        content_before = self._content(snapshot)
        number, content = self._numbered.pop((graph, name), (0, content_before or ""))
        number += content not in ("", snapshot.content)
        self._number(graph, name, number, snapshot.content)
        if content_before is not None:
            self.names[graph][name] = snapshot.content
        source = _source_of_correction(snapshot.source, number)
        return snapshot if source == snapshot.source else replace(snapshot, source=source)

    def _number(self, graph: str, name: _Name, number: int, content: str) -> None:
        self._numbered[graph, name] = number, content
        if len(self._numbered) > _MOST_NUMBERED:
            del self._numbered[next(iter(self._numbered))]

    def _content(self, snapshot: Snapshot) -> str | None:
        return self.names.get(snapshot.graph, {}).get(_name(snapshot.source, snapshot.id))

    def add(self, record: Record) -> None:
        """Add a record; records that are not snapshots are ignored."""
        try:
            fields = EventHeaders(record.headers, EVENT_TYPES["snapshots"], self.limits, BadInput)
            graph = graph_name_of(record.key, self.limits, BadInput)
            source, id, window = fields.text("ce_source"), fields.text("ce_id"), fields.window()
            content = fields.optional("icd_content") or ""
        except BadInput:
            return
        self.names[graph][name := _name(source, id)] = content
        number = max(_correction_in(source), self._numbered.pop((graph, name), (0, ""))[0])
        if number:
            self._number(graph, name, number, content)
        # A window far in the future would make all that follow it late.
        if window.end >= self.ends.get(graph, window.end) and not too_far_ahead(window, self.now):
            self.ends[graph] = window.end
            self.places[graph] = record.partition, record.offset


def _name(source: str, id: str) -> _Name:
    return _source_of_correction(source, 0), id


def _source_of_correction(source: str, number: int) -> str:
    """Return the `ce_source` of the correction with this number, from 1; 0: of the first message.

    >>> _source_of_correction("urn:me", 2)
    'urn:me#correction=2'
    """
    first = _CORRECTION.sub("", source)
    return f"{first}{';' if '#' in first else '#'}correction={number}" if number else first


def _correction_in(source: str) -> int:
    """Return the number of the correction that a `ce_source` names; 0 if it is of none."""
    number = _CORRECTION.search(source)
    return int(number[1]) if number else 0


def _partition_by_id(snapshot: Snapshot, n_partitions: int) -> int:
    """Spread a graph's snapshots evenly; a snapshot's id always selects the same partition."""
    digest = blake2b(snapshot.id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % n_partitions


class _Sends(Protocol):
    """Accepts records, as a `Publisher` does."""

    def send(self, record: OutgoingRecord) -> None: ...

    def flush(self) -> None: ...


@dataclass(slots=True)
class Published:
    """Counts of what was sent and acknowledged, and of the snapshots that were already there."""

    snapshots: int = 0
    labels: int = 0
    nodes: int = 0
    edges: int = 0
    bytes: int = 0
    already_sent: int = 0


def publish_source(
    source: Source,
    sends: _Sends,
    *,
    topic: str = SNAPSHOTS,
    labels_topic: str | None = LABELS,
    spread_over: int | None = None,
    sent_before: SentBefore | None = None,
    claim_check: Callable[[OutgoingRecord], OutgoingRecord] = lambda record: record,
    limit: int | None = None,
    stop: Event = Event(),
    on_sent: Callable[[Snapshot], None] = lambda _snapshot: None,
    on_already: Callable[[Snapshot], None] = lambda _snapshot: None,
) -> Published:
    """Send a source's snapshots, and their labels if known; return when all are acknowledged.

    Args:
        labels_topic: None: labels are not sent.
        spread_over: number of partitions to spread a graph's snapshots over, by their ids; None:
            all in one partition, in order, as their labels.
        sent_before: snapshots that are in the topic; they are not sent again.
        claim_check: makes a record fit its topic, as `ClaimCheck`; by default, one that is too
            large is refused.
        limit: stop after sending this number of snapshots.
        stop: checked before each snapshot; a started snapshot is sent completely.
        on_sent, on_already: for a progress bar.

    Raises:
        DeliveryFailed, MessageTooLarge: a record was not acknowledged; no record is skipped.
        BadCommunities: labels are those of another snapshot than the one that they come with.
        LimitExceeded: the id or another name of a snapshot is too long for readers.
    """
    sent_before = SentBefore() if sent_before is None else sent_before
    sent = Published()
    for snapshot, labels in source.snapshots:
        if stop.is_set():
            break
        if snapshot in sent_before:
            sent.already_sent += 1
            on_already(snapshot)
            continue
        snapshot = sent_before.numbered(snapshot)
        partition = None if spread_over is None else _partition_by_id(snapshot, spread_over)
        message = encode_snapshot(snapshot, unordered=partition is not None)
        # Readers would dead-letter a snapshot whose headers are too long.
        check_snapshot_headers(message.headers, sent_before.limits)
        # Labels first, so that they are there when a reader gets the snapshot.
        if labels is not None and labels_topic is not None:
            labelled, own = (labels.graph, labels.snapshot_id), (snapshot.graph, snapshot.id)
            if labelled != own:
                raise BadCommunities(f"the labels of snapshot {labelled} come with snapshot {own}")
            number = _correction_in(snapshot.source)
            labels = replace(labels, source=_source_of_correction(labels.source, number))
            sends.send(claim_check(outgoing(labels_topic, encode_labels(labels))))
            sent.labels += 1
        sends.send(claim_check(outgoing(topic, message, partition)))
        if partition is not None:
            # There is no order between partitions: a crash must not leave a window in one partition
            # while an earlier window for another is lost: a restart continues after the last one.
            sends.flush()
        sent.snapshots += 1
        sent.nodes += snapshot.n_nodes
        sent.edges += snapshot.n_edges
        sent.bytes += len(message.value)
        on_sent(snapshot)
        if sent.snapshots == limit:
            break
    sends.flush()
    return sent
