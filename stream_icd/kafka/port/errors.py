"""What a broker or a client refuses, and only the code that asked can put right.

GroupMovedOn       the group has a new generation: ask again in that one
Fenced             the producer's transactions are another one's: open another producer
Undecodable        a batch cannot be decoded: say where it ends
"""

from __future__ import annotations

from stream_icd.errors import DeliveryFailed, RecordUndecodable
from stream_icd.kafka.port.partition import TopicPartition


class GroupMovedOn(Exception):
    """The group gave our partitions to somebody else, or is about to: nothing of this counts."""


class Fenced(DeliveryFailed):
    """The broker refused because a producer's transactions are no longer its own."""


class Undecodable(RecordUndecodable):
    """Records that were fetched and cannot be decoded, up to, not including, the offset `end`."""

    def __init__(self, message: str, partition: TopicPartition, end: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.end = end
