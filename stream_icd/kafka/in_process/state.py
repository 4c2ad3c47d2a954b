"""The state of an in-memory broker (topics, groups, transactions) and the rules to change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stream_icd.errors import BrokerError, BrokerUnavailable, MessageTooLarge, TopicMissing
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.in_process.groups import Group
from stream_icd.kafka.in_process.log import Log, Transaction
from stream_icd.kafka.port import Fenced, TopicPartition, TopicSpec
from stream_icd.kafka.record import OutgoingRecord

_SEED = 0x9747B28C
_M = 0x5BD1E995
_ALL = 0xFFFFFFFF


def partition_of(key: bytes, n_partitions: int) -> int:
    """The partition of a key by murmur2, the default of Kafka's own client and of many others.

    >>> [partition_of(b"key-%d" % number, 3) for number in range(3)]
    [1, 0, 2]
    """
    return (_murmur2(key) & 0x7FFFFFFF) % n_partitions


def _murmur2(key: bytes) -> int:
    """Austin Appleby's 32-bit hash MurmurHash2, with Kafka's seed."""
    h = _SEED ^ len(key)
    whole = len(key) - len(key) % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _ALL
        h = (h * _M & _ALL) ^ ((k ^ k >> 24) * _M & _ALL)
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _ALL
    h = (h ^ h >> 13) * _M & _ALL
    return h ^ h >> 15


@dataclass(slots=True)
class _Topic:
    spec: TopicSpec
    logs: list[Log]
    unkeyed: int = 0


@dataclass(slots=True)
class Transactions:
    """Those of a producer name: the epoch of its latest owner, and the open transaction."""

    epoch: int = 0
    open: Transaction | None = None
    ends_by: float = float("inf")
    wrote_to: dict[TopicPartition, Log] = field(default_factory=dict)


class State:
    """The broker's state. Hold `changed` to call any method; each change notifies it.

    Methods raise the errors of the port's contracts.
    """

    def __init__(self, name: str, clock: Clock, wall_clock: Callable[[], float]) -> None:
        self.name = name
        self.clock = clock
        self.changed = threading.Condition()
        self.topics: dict[str, _Topic] = {}
        self.groups: dict[str, Group] = {}
        self._names: dict[str, Transactions] = {}
        self._wall_clock = wall_clock
        self._stopped = False

    def stop(self) -> None:
        with self.changed:
            self._stopped = True
            self.changed.notify_all()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the state for the length of the block, after a `look`."""
        with self.changed:
            self.look()
            yield

    def look(self) -> None:
        """Check that the broker runs, and end transactions and memberships that timed out."""
        if self._stopped:
            raise BrokerUnavailable(f"the in-memory broker {self.name} has stopped")
        now = self.clock.now()
        for name in self._names.values():
            if now > name.ends_by:
                name.epoch += 1  # fence a producer that took too long
                self.end(name, committed=False)
        for group in self.groups.values():
            for member in list(group.members.values()):
                if now - member.polled > member.patience_s:
                    group.leave(member, self.partitions(member.topic))
                    self.changed.notify_all()

    def create(self, spec: TopicSpec) -> bool:
        """Create a topic; False if it exists already."""
        if spec.name in self.topics:
            return False
        logs = [Log(TopicPartition(spec.name, number)) for number in range(spec.partitions)]
        self.topics[spec.name] = _Topic(spec, logs)
        self._reshare(spec.name)
        return True

    def delete(self, topic: str) -> None:
        """Delete a topic, and the offsets that groups committed in it."""
        if self.topics.pop(topic, None) is None:
            raise TopicMissing(f"delete topic {topic}: there is none")
        for group in self.groups.values():
            group.committed = {p: at for p, at in group.committed.items() if p.topic != topic}
        self._reshare(topic)

    def _reshare(self, topic: str) -> None:
        for group in self.groups.values():
            if any(member.topic == topic for member in group.members.values()):
                group.share(topic, self.partitions(topic))
        self.changed.notify_all()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; empty if the topic does not exist."""
        return [log.partition for log in self.topics[topic].logs] if topic in self.topics else []

    def log(self, partition: TopicPartition) -> Log:
        if partition.topic not in self.topics:
            raise TopicMissing(f"there is no topic {partition.topic}")
        logs = self.topics[partition.topic].logs
        if not 0 <= partition.partition < len(logs):
            raise BrokerError(f"there is no partition {partition}: {len(logs)} are there, from 0")
        return logs[partition.partition]

    def group(self, name: str) -> Group:
        """The group with this name; created on first use."""
        return self.groups.setdefault(name, Group(name))

    def choose(self, record: OutgoingRecord) -> Log:
        """Choose a record's partition: as given, else by its key, else round robin."""
        number = record.partition
        if number is None:
            topic = self.topics.get(record.topic)
            if topic is None:
                raise TopicMissing(f"publish to {record.topic}: there is no such topic")
            if record.key is None:
                topic.unkeyed += 1
                number = topic.unkeyed % len(topic.logs)
            else:
                number = partition_of(record.key, len(topic.logs))
        return self.log(TopicPartition(record.topic, number))

    def write(self, record: OutgoingRecord, log: Log, transaction: Transaction | None) -> None:
        """Write a record, unless it is larger than its topic accepts."""
        limit = self.topics[record.topic].spec.max_message_bytes
        if record.size > limit:
            raise MessageTooLarge(f"{record.size} bytes are more than the topic takes: {limit}")
        log.append(record, round(self._wall_clock() * 1000), transaction)
        self.changed.notify_all()

    def take_over(self, name: str) -> int:
        """Return the epoch for a new producer under a name, and fence the previous one."""
        known = self._names.setdefault(name, Transactions())
        self.end(known, committed=False)
        known.epoch += 1
        return known.epoch

    def transactions(self, name: str, epoch: int) -> Transactions:
        """The transactions of a name, unless another producer has taken it over."""
        known = self._names[name]
        if known.epoch != epoch:
            raise Fenced(f"the transactions of {name} are another producer's, or took too long")
        return known

    def end(self, name: Transactions, *, committed: bool) -> None:
        if name.open is not None:
            name.open.committed = committed
            for log in name.wrote_to.values():
                log.mark_end()
            for group in self.groups.values():
                group.settle(name.open)
        name.open, name.ends_by, name.wrote_to = None, float("inf"), {}
        self.changed.notify_all()
