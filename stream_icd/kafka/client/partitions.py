"""Convert our partitions and positions to kafka-python's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import kafka

from stream_icd.kafka.port.partition import TopicPartition


def theirs(partition: TopicPartition) -> Any:
    return kafka.TopicPartition(*partition)


def all_theirs(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [theirs(partition) for partition in partitions]


def positions(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    return {theirs(p): kafka.OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
