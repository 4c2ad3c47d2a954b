"""Our partitions and positions as kafka-python's, which takes no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import kafka

from stream_icd.kafka.port.partition import TopicPartition


def theirs(partition: TopicPartition) -> Any:
    """One of the client's partitions."""
    return kafka.TopicPartition(*partition)


def all_theirs(partitions: Iterable[TopicPartition]) -> list[Any]:
    """The client's partitions, in the same order."""
    return [theirs(partition) for partition in partitions]


def positions(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    """The client's way to say which offset is next in which partition."""
    return {theirs(p): kafka.OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
