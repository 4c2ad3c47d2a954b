"""The topics and groups of a broker, looked at and changed from outside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from stream_icd.kafka.port.capabilities import Capabilities
from stream_icd.kafka.port.partition import Offsets, TopicPartition
from stream_icd.kafka.port.topic import ExistingTopic, TopicSpec


class Admin(Protocol):
    """One connection; nothing is remembered between two calls.

    Each method raises BrokerUnavailable where nobody answers, NotAllowed where we lack the right,
    and BrokerError for whatever else the broker refuses.
    """

    def known_capabilities(self) -> Capabilities:
        """What is known of this kind of broker; writes nothing."""

    def topic_names(self) -> list[str]:
        """All topics that the broker shows us, in order of their names."""

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        """What the broker says of a topic; None: there is none."""

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        """Make the topics that do not exist, wait until all can be used; the names of those made.

        Who may not create topics is refused only where one is missing.
        """

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and what it holds."""

    def begins(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offset that each partition still holds."""

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offset after the last record of each partition."""

    def group_offsets(self, group: str) -> Offsets:
        """What a group has committed; transactions that may still change it are not waited for."""

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a group without running members go on from other offsets.

        Raises:
            BrokerError: the group is still at work.
        """

    def members(self, group: str) -> dict[str, str]:
        """What each member of a group calls itself, by the id that the broker gave it.

        Raises:
            ValueError: the broker's answer cannot be read.
        """
