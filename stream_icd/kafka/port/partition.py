"""One partition of a topic, and the positions in several."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition, numbered from 0 in its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


Offsets = dict[TopicPartition, int]
"""An offset in each of several partitions: that of the *next* record, where it is a position."""
