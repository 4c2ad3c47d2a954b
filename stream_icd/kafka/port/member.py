"""Reads partitions as a member of a group, which gives them to it and takes them away."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from stream_icd.kafka.port.group_metadata import GroupMetadata
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.port.reader import Reader


class Listener(Protocol):
    """Told of partitions that come and go; by any thread, at any time."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are ours from now on."""

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These are not ours any more."""


class Member(Reader, Protocol):
    """Stays in its group as long as it polls. A partition that the group never committed is read
    from its beginning."""

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Join with the polls that follow."""

    def pause(self, partition: TopicPartition) -> None:
        """Give no records of it; nothing happens where the partition was taken away."""

    def resume(self, partition: TopicPartition) -> None:
        """Give its records again; nothing happens where the partition was taken away."""

    def group(self) -> GroupMetadata:
        """What is known of the group now; asks nobody."""

    def silence_s(self) -> float:
        """Seconds since the broker last answered a heartbeat, or let us join."""

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit the group's positions.

        Raises:
            GroupMovedOn: the group has a new generation, or is about to have one.
            BrokerUnavailable: nobody answers now.
            BrokerError: the broker refuses.
        """

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        """The group's position, once no open transaction may change it any more; None: none.

        Raises:
            BrokerUnavailable: it cannot be had now.
        """
