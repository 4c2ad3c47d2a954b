"""Chooses the partition of a snapshot: by graph, which keeps order, or by snapshot."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import SNAPSHOTS, describe_topic
from stream_icd.snapshot import Snapshot

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
