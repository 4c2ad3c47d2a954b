"""Convert our partitions and positions to kafka-python's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import kafka

from stream_icd.kafka.port.partition import TopicPartition


def theirs(partition: TopicPartition) -> Any:
    """Convert one partition to the client's type."""
    return kafka.TopicPartition(*partition)


def all_theirs(partitions: Iterable[TopicPartition]) -> list[Any]:
    """Convert partitions to the client's type, in the same order."""
    return [theirs(partition) for partition in partitions]


def positions(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    """Convert next offsets by partition to the client's types."""
    return {theirs(p): kafka.OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
