"""Reads partitions of its own choice, without a group."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from stream_icd.kafka.port.partition import Offsets, TopicPartition
from stream_icd.kafka.record import Record

Polled = dict[TopicPartition, list[Record]]
"""Records by partition, in the order of their offsets; no list is empty."""


class Reader(Protocol):
    """Sees only what is committed, where the broker can tell. Never jumps to another offset."""

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these and no others."""

    def assigned(self) -> frozenset[TopicPartition]:
        """What is read now."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read from that offset next; nothing happens where the partition was taken away."""

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        """What has come; where nothing has, wait so long for it.

        Raises:
            OffsetGone: retention removed the position.
            Undecodable: what the topic holds next cannot be decoded.
            MessageTooLarge: the next record is larger than any answer that is taken.
            ClientStuck: the client does not return.
            BrokerUnavailable: nobody answers now.
        """

    def position(self, partition: TopicPartition) -> int | None:
        """The offset that is read next, as far as it is known now; asks nobody."""

    def fetched_end(self, partition: TopicPartition) -> int | None:
        """Where the partition ends, with what transactions hold back; None before the first poll.

        As the last poll found it; asks nobody.
        """

    def begins(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        """The first offset that each partition still holds."""

    def ends(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        """The offset after the last record that may be read now, in each partition."""

    def at_time(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Offsets:
        """The first record with that timestamp or a later one; only partitions that have one."""

    def close(self) -> None:
        """Stop reading; returns in any case, also where it was done before."""
