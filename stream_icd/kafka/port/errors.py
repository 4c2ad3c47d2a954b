"""Errors of a broker or client that only the calling code can handle.

GroupMovedOn       the group has a new generation: try again in that one
Fenced             another producer owns the transactions: open another producer
Undecodable        a batch cannot be decoded: report where it ends
"""

from __future__ import annotations

from stream_icd.errors import DeliveryFailed, RecordUndecodable
from stream_icd.kafka.port.partition import TopicPartition


class GroupMovedOn(Exception):
    """The group gave our partitions to another member, or is about to: the call had no effect."""


class Fenced(DeliveryFailed):
    """The broker refused because the producer is fenced: its transactions are not its own now."""


class Undecodable(RecordUndecodable):
    """Fetched records that cannot be decoded, up to, not including, the offset `end`."""

    def __init__(self, message: str, partition: TopicPartition, end: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.end = end
