"""Inspect and change the topics and groups of a broker from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from stream_icd.kafka.port.capabilities import Capabilities
from stream_icd.kafka.port.partition import Offsets, TopicPartition
from stream_icd.kafka.port.topic import ExistingTopic, TopicSpec


class Admin(Protocol):
    """One connection, without state between calls.

    Each method raises BrokerUnavailable if no broker answers, NotAllowed if we lack the permission,
    and BrokerError if the broker refuses for any other reason.
    """

    def known_capabilities(self) -> Capabilities:
        """The known capabilities of this kind of broker; writes nothing."""

    def topic_names(self) -> list[str]:
        """All topics that we may see, sorted by name."""

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        """The broker's description of a topic; None if the topic does not exist."""

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        """Create missing topics, wait until all are usable, and return the names of the new ones.

        Without the permission to create topics, this fails only if one is missing.
        """

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records."""

    def begins(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offset that is still available, by partition."""

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offset after the last record, by partition."""

    def group_offsets(self, group: str) -> Offsets:
        """A group's committed offsets; does not wait for transactions that may change them."""

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Change the committed offsets of a group that has no running members.

        Raises:
            BrokerError: the group has running members.
        """

    def members(self, group: str) -> dict[str, str]:
        """The name of each member of a group, by the member id from the broker.

        Raises:
            ValueError: the broker's answer cannot be read.
        """
