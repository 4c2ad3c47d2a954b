"""Read partitions as a member of a group, which assigns and revokes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from stream_icd.kafka.port.group_metadata import GroupMetadata
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.port.reader import Reader


class Listener(Protocol):
    """Called when partitions are assigned or revoked, by any thread, at any time."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are ours from now on."""

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are no longer ours."""


class Member(Reader, Protocol):
    """Stays in its group as long as it polls. A partition without a committed offset is read from
    its beginning."""

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Subscribe to a topic; later polls join the group."""

    def pause(self, partition: TopicPartition) -> None:
        """Stop returning its records; does nothing if the partition was revoked."""

    def resume(self, partition: TopicPartition) -> None:
        """Return its records again; does nothing if the partition was revoked."""

    def group(self) -> GroupMetadata:
        """The current view of the group; makes no request."""

    def silence_s(self) -> float:
        """Seconds since the broker last answered a heartbeat, or let us join."""

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit the group's positions.

        Raises:
            GroupMovedOn: the group has a new generation, or is about to have one.
            BrokerUnavailable: no broker answers now.
            BrokerError: the broker refuses.
        """

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        """The group's position, once no open transaction may change it; None if there is none.

        Raises:
            BrokerUnavailable: the position is not available now.
        """
