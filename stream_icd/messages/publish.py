"""Publishes a source to Kafka: each snapshot once, at a limited rate; all deliveries checked."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, Protocol

from stream_icd.errors import BadSettings
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import LABELS, SNAPSHOTS, describe_topic
from stream_icd.messages.records import outgoing
from stream_icd.snapshot import Snapshot
from stream_icd.sources.source import NeverStop, Source, Stop
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.snapshots import encode_snapshot

PartitionBy = Literal["graph", "snapshot"]

PartitionOf = Callable[[Snapshot], int | None]
"""Returns a snapshot's partition; None: the key (the graph's name) selects it."""


def by_graph(_snapshot: Snapshot) -> None:
    """Send all snapshots of a graph to one partition, in order."""


def by_snapshot(n_partitions: int) -> PartitionOf:
    """Spread a graph's snapshots evenly; a snapshot's id always selects the same partition."""

    def partition_of(snapshot: Snapshot) -> int:
        digest = blake2b(snapshot.id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % n_partitions

    return partition_of


def partitioning(settings: KafkaSettings, by: PartitionBy, topic: str = SNAPSHOTS) -> PartitionOf:
    """Return how snapshots are distributed over the partitions of `topic`.

    Raises:
        TopicMissing, BrokerUnavailable: see these classes.
    """
    return by_graph if by == "graph" else by_snapshot(describe_topic(settings, topic).partitions)


class Sends(Protocol):
    """Accepts records: `stream_icd.kafka.publisher.Publisher`, or a list in a test."""

    def send(self, record: OutgoingRecord) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Published:
    """Counts of what was sent and acknowledged, and of the snapshots that were already there."""

    snapshots: int
    labels: int
    nodes: int
    edges: int
    bytes: int
    already_sent: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `rate` snapshots per second (None: unlimited), by this clock."""

    rate: float | None
    monotonic: Callable[[], float]
    sleep: Callable[[float], object]

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate <= 0:
            raise BadSettings(f"rate {self.rate}; give snapshots per second above 0, or none")

    def wait(self, started: float, n_sent: int) -> None:
        """Sleep until snapshot number `n_sent` (from 0) is due."""
        if self.rate is not None:
            self.sleep(max(0.0, started + n_sent / self.rate - self.monotonic()))


def publish_source(
    source: Source,
    sends: Sends,
    pace: Pace,
    *,
    limit: int | None = None,
    already: Container[Snapshot] = (),
    stop: Stop = NeverStop(),
    snapshots_topic: str = SNAPSHOTS,
    labels_topic: str | None = LABELS,
    partition_of: PartitionOf = by_graph,
    claim_check: Callable[[OutgoingRecord], OutgoingRecord] = lambda record: record,
    on_sent: Callable[[Snapshot], None] = lambda _snapshot: None,
    on_already: Callable[[Snapshot], None] = lambda _snapshot: None,
) -> Published:
    """Send a source's snapshots, and their labels if known; return when all are acknowledged.

    Labels are sent first, so that they are available when a reader gets the snapshot.

    Args:
        limit: stop after sending this number of snapshots.
        already: snapshots that are in the topic; they are not sent again.
        stop: checked before each snapshot; a started snapshot is sent completely.
        labels_topic: topic of the labels; None: labels are not sent.
        partition_of: returns a snapshot's partition; labels are partitioned by graph.
        claim_check: makes a record fit its topic, as `ClaimCheck`; by default, a record that is
            too large is refused.
        on_sent, on_already: called with each snapshot, for a progress bar.

    Raises:
        DeliveryFailed, MessageTooLarge: a record was not acknowledged; no record is skipped.
    """
    counts = dict.fromkeys(("snapshots", "labels", "nodes", "edges", "bytes", "already_sent"), 0)
    started = pace.monotonic()
    for snapshot, labels in source.snapshots:
        if snapshot in already:
            counts["already_sent"] += 1
            on_already(snapshot)
            continue
        pace.wait(started, counts["snapshots"])
        if stop.is_set():
            break
        if labels is not None and labels_topic is not None:
            sends.send(claim_check(outgoing(labels_topic, encode_labels(labels))))
            counts["labels"] += 1
        partition = partition_of(snapshot)
        message = encode_snapshot(snapshot, unordered=partition is not None)
        sends.send(claim_check(outgoing(snapshots_topic, message, partition)))
        if partition is not None:
            # There is no order between partitions: a crash must not leave a window in one partition
            # while an earlier window for another is lost: a restart continues after the last one.
            sends.flush()
        counts["snapshots"] += 1
        counts["nodes"] += snapshot.n_nodes
        counts["edges"] += snapshot.n_edges
        counts["bytes"] += len(message.value)
        on_sent(snapshot)
        if counts["snapshots"] == limit:
            break
    sends.flush()
    return Published(**counts)
