"""One partition of a topic, and offsets in several partitions."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition, numbered from 0 in its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


Offsets = dict[TopicPartition, int]
"""One offset for each partition; a position is the offset of the *next* record."""
