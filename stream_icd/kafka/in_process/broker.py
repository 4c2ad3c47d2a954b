"""Run a broker within the process, find it by name, administrate it, publish to it, and read it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    DeliveryFailed,
    MessageTooLarge,
    OffsetGone,
)
from stream_icd.kafka.in_process.state import BrokerState, Owner
from stream_icd.kafka.port import (
    IN_MEMORY,
    Capabilities,
    ExistingTopic,
    Fenced,
    GroupMetadata,
    Listener,
    Offsets,
    Partitions,
    Polled,
    Settled,
    TopicPartition,
    TopicSpec,
)
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import MEMORY_SCHEME, KafkaSettings
from stream_icd.kafka.waiting import Clock, Stop

_MAX_RECORDS = 500

_running: dict[str, BrokerState] = {}
_lock = threading.Lock()


class MemoryBroker:
    """A running in-memory broker; code in this process reaches it by `bootstrap_servers`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    @property
    def bootstrap_servers(self) -> str:
        """The address for the settings and every `--bootstrap-servers` option."""
        return f"{MEMORY_SCHEME}{self._state.name}"

    def remove_before(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records before `offset`, as retention does over time."""
        with self._state.changed:
            self._state.log(TopicPartition(topic, partition)).remove_before(offset)
            self._state.changed.notify_all()


@contextmanager
def memory_broker(
    name: str | None = None, *, clock: Clock = Clock(), wall_clock: Callable[[], float] = time.time
) -> Iterator[MemoryBroker]:
    """Run a broker within this process for the length of the block.

    It has Apache Kafka's order, offsets, rebalancing groups and transactions, but no retention or
    compaction. It is deterministic: the same calls in the same order give the same results. Other
    processes cannot reach it, and its data is lost when it stops.

    Args:
        name: the name by which settings find it; None: a new unique name.
        clock: for the timeouts of transactions and memberships.
        wall_clock: seconds since 1970, for the timestamps of records that have none.

    Raises:
        BadSettings: a broker of that name is running.

    >>> from stream_icd.kafka.settings import KafkaSettings
    >>> with memory_broker("trial") as broker:
    ...     settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    >>> settings.bootstrap_servers
    'memory://trial'
    """
    state = BrokerState(uuid.uuid4().hex if name is None else name, clock, wall_clock)
    with _lock:
        if state.name in _running:
            raise BadSettings(f"an in-memory broker named {state.name} is running already")
        _running[state.name] = state
    try:
        yield MemoryBroker(state)
    finally:
        with _lock:
            del _running[state.name]
        state.stop()


class MemoryConnection:
    """Implements the port's Broker and Admin, for the running broker that the settings name."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        name = settings.bootstrap_servers.removeprefix(MEMORY_SCHEME)
        with _lock:
            state = _running.get(name)
        if state is None:
            raise BrokerUnavailable(
                f"no in-memory broker named {name} runs in this process: start one "
                f"(stream_icd.kafka.in_process.broker.memory_broker({name!r})), or give the "
                "address of another one (--bootstrap-servers, or STREAM_ICD_BOOTSTRAP_SERVERS)"
            )
        self._state = state

    def producer(self) -> _MemoryProducer:
        return _MemoryProducer(self._state, None)

    def transactional_producer(self, name: str) -> _MemoryTransactionalProducer:
        with self._state.held():
            owner = name, self._state.take_over(name)
        timeout_s = self._settings.transaction_timeout_s
        return _MemoryTransactionalProducer(self._state, owner, timeout_s)

    def reader(self, stop: Stop | None = None) -> _MemoryReader:  # noqa: ARG002
        return _MemoryReader(self._state)

    def member(self, group: str, max_records: int, stop: Stop) -> _MemoryMember:  # noqa: ARG002
        name, patience_s = self._settings.member_name, self._settings.max_poll_interval_s
        return _MemoryMember(self._state, group, name, max_records, patience_s)

    @contextmanager
    def admin(self) -> Iterator[MemoryConnection]:
        yield self

    def known_capabilities(self) -> Capabilities:
        return IN_MEMORY

    def topic_names(self) -> list[str]:
        with self._state.held():
            return sorted(self._state.topics)

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        with self._state.held():
            if topic not in self._state.topics:
                return None
            spec = self._state.topics[topic].spec
            is_compacted = "compact" in spec.cleanup_policy
            return ExistingTopic(topic, spec.partitions, spec.max_message_bytes, is_compacted)

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        with self._state.held():
            return frozenset(spec.name for spec in specs if self._state.create(spec))

    def delete_topic(self, topic: str) -> None:
        with self._state.held():
            self._state.delete(topic)

    def begins(self, partitions: Partitions) -> Offsets:
        with self._state.held():
            return {partition: self._state.log(partition).begin for partition in partitions}

    def ends(self, partitions: Partitions) -> Offsets:
        with self._state.held():
            return {partition: self._state.log(partition).end for partition in partitions}

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
            return {member.id: member.name for member in self._state.group(group).members.values()}


@dataclass(slots=True)
class _MemoryProducer:
    """Implements the port's Producer; each record is settled before `send` returns."""

    _state: BrokerState
    _owner: Owner | None  # of the transactions that its records are part of

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        refused: BrokerError | None = None
        try:
            with self._state.held():
                self._state.write(record, self._owner)
        except (Fenced, MessageTooLarge) as error:
            refused = error
        settled(refused)

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        return


@dataclass(slots=True)
class _MemoryTransactionalProducer(_MemoryProducer):
    """Implements the port's TransactionalProducer, as one of the owners of a name."""

    _owner: Owner
    _timeout_s: float

    def begin(self) -> None:
        with self._held():
            self._state.begin(self._owner, self._timeout_s)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        with self._held():
            self._state.add_positions(self._owner, offsets, group)

    def commit(self) -> None:
        with self._held():
            self._state.end(self._owner, committed=True)

    def abort(self) -> None:
        with self._held():
            self._state.end(self._owner, committed=False)

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._state.changed:
            try:
                self._state.look()
            except BrokerUnavailable as error:
                raise DeliveryFailed(f"the transaction did not succeed: {error}") from error
            yield


class _MemoryReader:
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
        for offsets in (self._positions, self._ends):
            for partition in offsets.keys() - partitions:
                del offsets[partition]

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
        readable = self._positions.keys() - self._paused
        for partition in [partition for partition in self._partitions if partition in readable]:
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


class _MemoryMember(_MemoryReader):
    """Implements the port's Member. It takes part in its group only while it polls."""

    def __init__(
        self, state: BrokerState, group: str, name: str, max_records: int, patience_s: float
    ) -> None:
        super().__init__(state, max_records)
        with state.changed:
            self._group = state.group(group)
        self._member = self._group.new_member(name, patience_s)
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
            # Before it joins: others may have the partitions of a removed member by now.
            self._lose(self.assigned(), self._listener)
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
        self._partitions = [ours for ours in self._partitions if ours not in partitions]
