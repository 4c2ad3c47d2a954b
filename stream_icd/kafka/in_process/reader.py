"""Read partitions of an in-memory broker."""

from __future__ import annotations

import time
from collections.abc import Collection

from stream_icd.errors import BrokerUnavailable, OffsetGone
from stream_icd.kafka.in_process.state import State
from stream_icd.kafka.port.broker import Polled
from stream_icd.kafka.port.topic import Offsets, TopicPartition

MAX_RECORDS = 500


class MemoryReader:
    """Implements the port's Reader. Polls serve partitions with records in turn (round robin)."""

    def __init__(self, state: State, max_records: int = MAX_RECORDS) -> None:
        self._state = state
        self._max_records = max_records
        self._partitions: list[TopicPartition] = []
        self._positions: Offsets = {}
        self._ends: Offsets = {}
        self._paused: set[TopicPartition] = set()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self._partitions = sorted(partitions)

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
                found = self._read(most)
                left_s = ends_by - time.monotonic()
                if found or left_s <= 0:
                    return found
                self._state.changed.wait(left_s)

    def position(self, partition: TopicPartition) -> int | None:
        with self._state.changed:
            return self._positions.get(partition)

    def fetched_end(self, partition: TopicPartition) -> int | None:
        with self._state.changed:
            return self._ends.get(partition)

    def begins(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float | None = None,  # noqa: ARG002
    ) -> Offsets:
        with self._state.held():
            return {one: self._state.log(one).begin for one in partitions}

    def ends(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float | None = None,  # noqa: ARG002
    ) -> Offsets:
        with self._state.held():
            return {one: self._state.log(one).stable_end() for one in partitions}

    def at_time(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Offsets:
        with self._state.held():
            found = {one: self._state.log(one).first_at(timestamp_ms) for one in partitions}
        return {one: offset for one, offset in found.items() if offset is not None}

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

    def _readable(self) -> list[TopicPartition]:
        known = self._positions.keys() - self._paused
        return [one for one in self._partitions if one in known]

    def _read(self, most: int) -> Polled:
        found: Polled = {}
        for partition in self._readable():
            log, position = self._state.log(partition), self._positions[partition]
            if not log.begin <= position <= log.end:
                raise OffsetGone(f"offset {position} of {partition} is not there (any more)")
            records, self._positions[partition] = log.read(position, most)
            self._ends[partition] = log.end
            most -= len(records)
            if records:
                found[partition] = records
        self._let_others_go_first(found)
        return found

    def _let_others_go_first(self, served: Collection[TopicPartition]) -> None:
        self._partitions.sort(key=lambda one: one in served)
