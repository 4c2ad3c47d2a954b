"""Read chosen partitions, without a group."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from stream_icd.kafka.port.partition import Offsets, TopicPartition
from stream_icd.kafka.record import Record

Polled = dict[TopicPartition, list[Record]]
"""Records by partition, in the order of their offsets; no list is empty."""


class Reader(Protocol):
    """Sees only committed records, if the broker can tell. Never jumps to another offset."""

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions."""

    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read from `offset` next; does nothing if the partition was revoked."""

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        """Return the available records; if there are none, wait up to `timeout_s` for some.

        Raises:
            OffsetGone: retention removed the position.
            Undecodable: the next records cannot be decoded.
            MessageTooLarge: the next record is larger than any accepted fetch response.
            ClientStuck: the client does not return.
            BrokerUnavailable: no broker answers now.
        """

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to read, if known; makes no request."""

    def fetched_end(self, partition: TopicPartition) -> int | None:
        """The partition's end, including open transactions; None before the first poll.

        This is the end seen by the last poll; makes no request.
        """

    def begins(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        """The first offset that is still available, by partition."""

    def ends(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        """The offset after the last record that can be read now, by partition."""

    def at_time(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Offsets:
        """The offset of the first record at or after a time, for partitions that have one."""

    def close(self) -> None:
        """Stop reading; always returns, and may be called again."""
