"""Read from an in-memory broker: partitions, or as a member of a group."""

from __future__ import annotations

import time
from collections.abc import Mapping

from stream_icd.core.errors import BrokerError, BrokerUnavailable, OffsetGone
from stream_icd.kafka.in_process.state import BrokerState, GroupMember
from stream_icd.kafka.port import (
    GroupMetadata,
    Listener,
    Offsets,
    Partitions,
    Polled,
    TopicPartition,
)

_MAX_RECORDS = 500


class MemoryReader:
    """Implements the port's Reader. Polls serve partitions with records in turn (round robin)."""

    def __init__(self, state: BrokerState, max_records: int = _MAX_RECORDS) -> None:
        self._state = state
        self._max_records = max_records
        self._partitions: list[TopicPartition] = []
        self._positions: Offsets = {}
        self._ends: Offsets = {}
        self._paused: set[TopicPartition] = set()

    def partitions(self, topic: str) -> int:
        with self._state.changed:
            return len(self._state.partitions(topic))

    def assign(self, partitions: Partitions) -> None:
        self._partitions = sorted(partitions)
        for known in (self._positions, self._ends):
            for partition in known.keys() - partitions:
                del known[partition]

    def assigned(self) -> frozenset[TopicPartition]:
        with self._state.changed:
            return frozenset(self._partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with self._state.changed:
            if partition in self._partitions:
                self._positions[partition] = offset
                self._state.changed.notify_all()

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        most = self._max_records if max_records is None else max_records
        ends_by = time.monotonic() + timeout_s  # real time, because a caller waits
        with self._state.changed:
            while True:
                self._look(ends_by)
                self._take_part()
                polled = self._read(most)
                left_s = ends_by - time.monotonic()
                if polled or left_s <= 0:
                    return polled
                self._state.changed.wait(left_s)

    def position(self, partition: TopicPartition) -> int | None:
        with self._state.changed:
            return self._positions.get(partition)

    def fetched_end(self, partition: TopicPartition) -> int | None:
        with self._state.changed:
            return self._ends.get(partition)

    def begins(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:  # noqa: ARG002
        with self._state.held():
            return {partition: self._state.log(partition).begin for partition in partitions}

    def ends(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:  # noqa: ARG002
        with self._state.held():
            return {partition: self._state.log(partition).stable_end() for partition in partitions}

    def at_time(self, partitions: Partitions, timestamp_ms: int) -> Offsets:
        with self._state.held():
            firsts = {p: self._state.log(p).first_at(timestamp_ms) for p in partitions}
        return {p: offset for p, offset in firsts.items() if offset is not None}

    def close(self) -> None:
        return

    def _look(self, ends_by: float) -> None:
        """Check that the broker runs; if it does not, wait as for any unavailable broker."""
        try:
            self._state.look()
        except BrokerUnavailable:
            self._state.changed.wait_for(lambda: False, max(0.0, ends_by - time.monotonic()))
            raise

    def _take_part(self) -> None:
        """Hook that runs before each look at the records."""

    def _read(self, most: int) -> Polled:
        polled: Polled = {}
        known = self._positions.keys() - self._paused
        for partition in [partition for partition in self._partitions if partition in known]:
            log, position = self._state.log(partition), self._positions[partition]
            if not log.begin <= position <= log.end:
                raise OffsetGone(f"offset {position} of {partition} is not there (any more)")
            records, self._positions[partition] = log.read(position, most)
            self._ends[partition] = log.end
            most -= len(records)
            if records:
                polled[partition] = records
        self._partitions.sort(key=polled.__contains__)  # the others go first the next time
        return polled


class MemoryMember(MemoryReader):
    """Implements the port's Member. It takes part in its group only while it polls."""

    def __init__(
        self, state: BrokerState, group: str, name: str, max_records: int, patience_s: float
    ) -> None:
        super().__init__(state, max_records)
        with state.changed:
            self._group = state.group(group)
        self._member = GroupMember(name, patience_s)
        self._listener: Listener | None = None

    def subscribe(self, topic: str, listener: Listener) -> None:
        self._member.topic, self._listener = topic, listener

    def pause(self, partition: TopicPartition) -> None:
        with self._state.changed:
            self._paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        with self._state.changed:
            self._paused.discard(partition)

    def group(self) -> GroupMetadata:
        with self._state.changed:
            group, member = self._group, self._member
            stable = member.id in group.members and member.generation == group.generation
            return GroupMetadata(group.name, member.generation, member.id, stable)

    def silence_s(self) -> float:
        return 0.0

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:  # noqa: ARG002
        with self._state.held():
            self._group.check(self.group())
            self._group.committed |= offsets

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        with self._state.held():
            free = self._state.changed.wait_for(
                lambda: not self._state.is_held(self._group.name, partition), timeout_s
            )
            if not free:
                raise BrokerUnavailable(f"a transaction may change the position in {partition}")
            return self._group.committed.get(partition)

    def close(self) -> None:
        with self._state.changed:
            self._group.leave(self._member, self._state.partitions(self._member.topic))
            self._state.changed.notify_all()

    def _take_part(self) -> None:
        if self._listener is None:
            raise BrokerError("nothing is subscribed to")
        self._member.polled = self._state.clock.now()
        if self._member.id not in self._group.members:
            self._lose(self.assigned(), self._listener)  # a removed member has no partitions
            self._member.owned = frozenset()
            self._group.join(self._member, self._state.partitions(self._member.topic))
        back, free = self._group.change(self._member)
        self._lose(back, self._listener)
        if free:
            self._partitions += sorted(free)
            self._listener.assigned(sorted(free))
        self._member.owned = frozenset(self._partitions)
        if self._member.generation != self._group.generation or back or free:
            self._member.generation = self._group.generation
            self._state.changed.notify_all()
        for partition in set(self._partitions) - self._positions.keys():
            if not self._state.is_held(self._group.name, partition):
                begin = self._state.log(partition).begin
                self._positions[partition] = self._group.committed.get(partition, begin)

    def _lose(self, partitions: Partitions, listener: Listener) -> None:
        if not partitions:
            return
        listener.revoked(sorted(partitions))
        for partition in partitions:
            self._positions.pop(partition, None)
            self._ends.pop(partition, None)
            self._paused.discard(partition)
        self._partitions = [kept for kept in self._partitions if kept not in partitions]
