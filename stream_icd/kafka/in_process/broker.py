"""Run a broker within the process, find it by name, administrate it, and publish to it."""

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
)
from stream_icd.kafka.in_process.reader import MemoryMember, MemoryReader
from stream_icd.kafka.in_process.state import BrokerState, Transaction, Transactions
from stream_icd.kafka.port import (
    MEMORY,
    Capabilities,
    ExistingTopic,
    Fenced,
    GroupMetadata,
    Offsets,
    Partitions,
    Settled,
    TopicPartition,
    TopicSpec,
)
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import MEMORY_SCHEME, KafkaSettings
from stream_icd.kafka.waiting import Clock, Stop


@dataclass(slots=True)
class _MemoryProducer:
    """Implements the port's Producer; each record is settled before `send` returns."""

    _state: BrokerState

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        refused: BrokerError | None = None
        try:
            with self._state.held():
                self._state.write(record, self._open_transaction())
        except (Fenced, MessageTooLarge) as error:
            refused = error
        settled(refused)

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        return

    def _open_transaction(self) -> Transaction | None:
        return None


@dataclass(slots=True)
class _MemoryTransactionalProducer(_MemoryProducer):
    """Implements the port's TransactionalProducer, as one of the owners of a name."""

    _name: str
    _epoch: int
    _timeout_s: float

    def begin(self) -> None:
        with self._transactions() as ours:
            ours.open = Transaction(ends_by=self._state.clock.now() + self._timeout_s)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        with self._transactions() as ours:
            assert ours.open is not None, "no transaction was begun"
            self._state.group(group.group).check(group)
            ours.open.positions.setdefault(group.group, {}).update(offsets)

    def commit(self) -> None:
        with self._transactions() as ours:
            self._state.end(ours, committed=True)

    def abort(self) -> None:
        with self._transactions() as ours:
            self._state.end(ours, committed=False)

    def _open_transaction(self) -> Transaction | None:
        return self._state.transactions(self._name, self._epoch).open

    @contextmanager
    def _transactions(self) -> Iterator[Transactions]:
        """Hold the state for the length of the block; gives the transactions of our name."""
        with self._state.changed:
            try:
                self._state.look()
            except BrokerUnavailable as error:
                raise DeliveryFailed(f"the transaction did not succeed: {error}") from error
            yield self._state.transactions(self._name, self._epoch)


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
        return _MemoryProducer(self._state)

    def transactional_producer(self, name: str) -> _MemoryTransactionalProducer:
        with self._state.held():
            epoch, timeout_s = self._state.take_over(name), self._settings.transaction_timeout_s
        return _MemoryTransactionalProducer(self._state, name, epoch, timeout_s)

    def reader(self, stop: Stop | None = None) -> MemoryReader:  # noqa: ARG002
        return MemoryReader(self._state)

    def member(self, group: str, max_records: int, stop: Stop) -> MemoryMember:  # noqa: ARG002
        name, patience_s = self._settings.member_name, self._settings.max_poll_interval_s
        return MemoryMember(self._state, group, name, max_records, patience_s)

    @contextmanager
    def admin(self) -> Iterator[MemoryConnection]:
        yield self

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
