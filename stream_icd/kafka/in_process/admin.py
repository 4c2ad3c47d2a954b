"""Topics and groups of an in-memory broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stream_icd.errors import BrokerError
from stream_icd.kafka.in_process.state import State
from stream_icd.kafka.port.broker import MEMORY, Capabilities
from stream_icd.kafka.port.partition import Offsets, TopicPartition
from stream_icd.kafka.port.topic import ExistingTopic, TopicSpec


class MemoryAdmin:
    """Implements the port's Admin."""

    def __init__(self, state: State) -> None:
        self._state = state

    def known_capabilities(self) -> Capabilities:
        return MEMORY

    def topic_names(self) -> list[str]:
        with self._state.held():
            return sorted(self._state.topics)

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        with self._state.held():
            if topic not in self._state.topics:
                return None
            spec = self._state.topics[topic].spec
            return ExistingTopic(topic, spec.partitions, spec.max_message_bytes)

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        with self._state.held():
            return frozenset(spec.name for spec in specs if self._state.create(spec))

    def delete_topic(self, topic: str) -> None:
        with self._state.held():
            self._state.delete(topic)

    def begins(self, partitions: Collection[TopicPartition]) -> Offsets:
        with self._state.held():
            return {one: self._state.log(one).begin for one in partitions}

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        with self._state.held():
            return {one: self._state.log(one).end for one in partitions}

    def group_offsets(self, group: str) -> Offsets:
        with self._state.held():
            return dict(self._state.group(group).committed)

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        with self._state.held():
            moved = self._state.group(group)
            if moved.members:
                raise BrokerError(f"group {group} still has running members: stop them first")
            moved.committed |= offsets

    def members(self, group: str) -> dict[str, str]:
        with self._state.held():
            return {one.id: one.name for one in self._state.group(group).members.values()}
