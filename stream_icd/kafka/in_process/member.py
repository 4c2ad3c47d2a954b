"""Read from an in-memory broker as a member of a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stream_icd.errors import BrokerError, BrokerUnavailable
from stream_icd.kafka.in_process.groups import Membership
from stream_icd.kafka.in_process.reader import MemoryReader
from stream_icd.kafka.in_process.state import State
from stream_icd.kafka.port.broker import GroupMetadata, Listener
from stream_icd.kafka.port.topic import TopicPartition


class MemoryMember(MemoryReader):
    """Implements the port's Member. It takes part in its group only while it polls."""

    def __init__(
        self, state: State, group: str, name: str, max_records: int, patience_s: float
    ) -> None:
        super().__init__(state, max_records)
        with state.changed:
            self._group = state.group(group)
        self._name = name
        self._patience_s = patience_s
        self._topic: str | None = None
        self._listener: Listener | None = None
        self._member: Membership | None = None

    def subscribe(self, topic: str, listener: Listener) -> None:
        self._topic, self._listener = topic, listener

    def pause(self, partition: TopicPartition) -> None:
        with self._state.changed:
            self._paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        with self._state.changed:
            self._paused.discard(partition)

    def group(self) -> GroupMetadata:
        with self._state.changed:
            member = self._member
            if member is None:
                return GroupMetadata(self._group.name, -1, "", stable=False)
            stable = (
                member.id in self._group.members and member.generation == self._group.generation
            )
            return GroupMetadata(self._group.name, member.generation, member.id, stable)

    def silence_s(self) -> float:
        return 0.0

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:  # noqa: ARG002
        with self._state.held():
            self._group.check(self.group())
            self._group.committed |= offsets

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        with self._state.held():
            free = self._state.changed.wait_for(
                lambda: not self._group.is_held(partition), timeout_s
            )
            if not free:
                raise BrokerUnavailable(f"a transaction may change the position in {partition}")
            return self._group.committed.get(partition)

    def close(self) -> None:
        with self._state.changed:
            if self._member is not None:
                there = self._state.partitions(self._member.topic)
                self._group.leave(self._member, there)
                self._state.changed.notify_all()

    def _take_part(self) -> None:
        if self._topic is None or self._listener is None:
            raise BrokerError("nothing is subscribed to")
        now, there = self._state.clock.now(), self._state.partitions(self._topic)
        if self._member is None or self._member.id not in self._group.members:
            self._lose(self.assigned())  # a removed member has no partitions
            self._member = self._group.join(self._name, self._topic, self._patience_s, now, there)
        self._member.polled = now
        back, free = self._group.change(self._member)
        self._lose(back)
        self._gain(free)
        if self._member.generation != self._group.generation or back or free:
            self._member.generation = self._group.generation
            self._state.changed.notify_all()
        for partition in self._partitions:
            self._find_position(partition)

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        if not partitions or self._listener is None:
            return
        self._listener.revoked(sorted(partitions))
        for partition in partitions:
            self._positions.pop(partition, None)
            self._ends.pop(partition, None)
            self._paused.discard(partition)
        self._own([one for one in self._partitions if one not in partitions])

    def _gain(self, partitions: Collection[TopicPartition]) -> None:
        if partitions and self._listener is not None:
            self._own([*self._partitions, *sorted(partitions)])
            self._listener.assigned(sorted(partitions))

    def _own(self, partitions: list[TopicPartition]) -> None:
        self._partitions = partitions
        if self._member is not None:
            self._member.owned = frozenset(partitions)

    def _find_position(self, partition: TopicPartition) -> None:
        """Start at the committed offset, once no open transaction may change it."""
        if partition not in self._positions and not self._group.is_held(partition):
            begin = self._state.log(partition).begin
            self._positions[partition] = self._group.committed.get(partition, begin)
