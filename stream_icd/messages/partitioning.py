"""Which partition a snapshot goes to: its graph's, where order is kept, or any."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Literal

from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import SNAPSHOTS, describe_topic
from stream_icd.snapshot import Snapshot

PartitionBy = Literal["graph", "snapshot"]

PartitionOf = Callable[[Snapshot], int | None]
"""The partition of a snapshot; None: the one that its key, the graph's name, chooses."""


def by_graph(_snapshot: Snapshot) -> None:
    """All snapshots of a graph in one partition, in order."""


def by_snapshot(n_partitions: int) -> PartitionOf:
    """The snapshots of a graph spread evenly, each always in the same place, by its id."""

    def partition_of(snapshot: Snapshot) -> int:
        digest = blake2b(snapshot.id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % n_partitions

    return partition_of


def partitioning(settings: KafkaSettings, by: PartitionBy, topic: str = SNAPSHOTS) -> PartitionOf:
    """How snapshots are spread over `topic`.

    Raises:
        TopicMissing, BrokerUnavailable: as their texts say.
    """
    return by_graph if by == "graph" else by_snapshot(describe_topic(settings, topic).partitions)
