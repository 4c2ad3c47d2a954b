"""The state of an in-memory broker (topics, groups, transactions) and the rules to change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from stream_icd.core.errors import BrokerError, BrokerUnavailable, MessageTooLarge, TopicMissing
from stream_icd.kafka.port import (
    Fenced,
    GroupMetadata,
    GroupMovedOn,
    Offsets,
    TopicPartition,
    TopicSpec,
)
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.waiting import Clock

_SEED = 0x9747B28C
_M = 0x5BD1E995
_ALL = 0xFFFFFFFF


def _partition_of(key: bytes, n_partitions: int) -> int:
    """The partition of a key by murmur2, the default of Kafka's own client and of many others.

    >>> [_partition_of(b"key-%d" % number, 3) for number in range(3)]
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


_Owned = frozenset[TopicPartition]


@dataclass(eq=False, slots=True)
class _GroupMember:
    """One member, from its group's view."""

    name: str
    patience_s: float  # the maximum time between two polls
    topic: str = ""
    id: str = ""  # "" before it has joined
    polled: float = 0.0  # the time of its last poll
    generation: int = -1  # the last generation that it took part in; -1 before the first
    owned: _Owned = frozenset()  # the partitions that it has not given back


@dataclass(slots=True)
class _Group:
    """Members share their topic's partitions evenly, in turn.

    A partition goes to another member only after its previous member gave it back or was removed.
    Each change begins a new generation, and requests from an older one are refused.
    """

    name: str
    generation: int = 0
    members: dict[str, _GroupMember] = field(default_factory=dict)
    committed: Offsets = field(default_factory=dict)
    _shares: dict[str, _Owned] = field(default_factory=dict)  # by the id of a member
    _joined: int = 0

    @staticmethod
    def new_member(name: str, patience_s: float) -> _GroupMember:
        """A member that has not joined yet, and may take so long between two polls."""
        return _GroupMember(name, patience_s)

    def join(self, member: _GroupMember, partitions: Sequence[TopicPartition]) -> None:
        """Add a member, and share the partitions of its topic among all members."""
        self._joined += 1
        member.id, member.generation = f"{member.name}-{self._joined}", -1
        self.members[member.id] = member
        self.share(member.topic, partitions)

    def leave(self, member: _GroupMember, partitions: Sequence[TopicPartition]) -> None:
        if self.members.pop(member.id, None) is not None:
            self._shares.pop(member.id, None)
            self.share(member.topic, partitions)

    def share(self, topic: str, partitions: Sequence[TopicPartition]) -> None:
        """Begin a generation in which the topic's members share the partitions."""
        self.generation += 1
        readers = [member.id for member in self.members.values() if member.topic == topic]
        n = len(readers)
        shares = {reader: frozenset(partitions[at::n]) for at, reader in enumerate(readers)}
        self._shares |= shares

    def change(self, member: _GroupMember) -> tuple[_Owned, _Owned]:
        """The partitions that a member must give back, and those that it may take now."""
        share = self._shares[member.id]
        # A partition that its previous member has not given back is processed there still.
        not_free = {partition for peer in self.members.values() for partition in peer.owned}
        return member.owned - share, share - not_free

    def check(self, group: GroupMetadata) -> None:
        """Raise GroupMovedOn unless the caller is a member in the current generation."""
        if group.member_id not in self.members or group.generation != self.generation:
            raise GroupMovedOn(
                f"group {self.name} is in generation {self.generation}, and not in "
                f"{group.generation} of member {group.member_id!r}"
            )


@dataclass(eq=False, slots=True)
class _Transaction:
    """Records and positions that take effect together, or never."""

    ends_by: float = inf  # when the broker aborts it
    committed: bool | None = None  # None while it is open
    # The logs that hold records of it.
    wrote_to: dict[TopicPartition, _Log] = field(default_factory=dict)
    positions: dict[str, Offsets] = field(default_factory=dict)  # what it commits, by group


_ALONE = _Transaction(committed=True)


@dataclass(slots=True)
class _Log:
    """A partition's entries: records, and None for the marker of a transaction's end.

    Offsets also count markers; `begin` is the first offset available.
    """

    partition: TopicPartition
    begin: int = 0
    _entries: list[tuple[Record | None, _Transaction]] = field(default_factory=list)
    _settled: int = 0

    @property
    def end(self) -> int:
        return self.begin + len(self._entries)

    def append(
        self, record: OutgoingRecord, timestamp_ms: int, transaction: _Transaction | None
    ) -> None:
        where = *self.partition, self.end
        written = Record(*where, timestamp_ms, record.key, record.value, record.headers)
        self._entries.append((written, transaction or _ALONE))
        if transaction is not None:
            transaction.wrote_to[self.partition] = self

    def mark_end(self) -> None:
        self._entries.append((None, _ALONE))

    def stable_end(self) -> int:
        """The offset where readers stop: the first record of an open transaction, or the end."""
        self._settled = max(self._settled, self.begin)
        while self._settled < self.end and self._at(self._settled)[1].committed is not None:
            self._settled += 1
        return self._settled

    def read(self, position: int, most: int) -> tuple[list[Record], int]:
        """Up to `most` visible records from `position` on, and the next position."""
        records: list[Record] = []
        stop = self.stable_end()
        while position < stop and len(records) < most:
            record, transaction = self._at(position)
            if record is not None and transaction.committed:
                records.append(record)
            position += 1
        return records, position

    def first_at(self, timestamp_ms: int) -> int | None:
        for record, _ in self._entries:
            if record is not None and record.timestamp_ms >= timestamp_ms:
                return record.offset
        return None

    def remove_before(self, offset: int) -> None:
        del self._entries[: max(0, offset - self.begin)]
        self.begin = max(self.begin, offset)

    def _at(self, offset: int) -> tuple[Record | None, _Transaction]:
        return self._entries[offset - self.begin]


@dataclass(slots=True)
class _Topic:
    spec: TopicSpec
    logs: list[_Log]
    unkeyed: int = 0


@dataclass(slots=True)
class _Transactions:
    """Those of a producer name: the epoch of its latest owner, and the open transaction."""

    epoch: int = 0
    open: _Transaction | None = None


Owner = tuple[str, int]
"""A producer's name, and its epoch: who takes the name over has a higher one."""


class BrokerState:
    """The broker's state. Hold `changed` to call any method; each change notifies it.

    Methods raise the errors of the port's contracts.
    """

    def __init__(self, name: str, clock: Clock, wall_clock: Callable[[], float]) -> None:
        self.name = name
        self.clock = clock
        self.changed = threading.Condition()
        self.topics: dict[str, _Topic] = {}
        self.groups: dict[str, _Group] = {}
        self._names: dict[str, _Transactions] = {}
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
        for ours in self._names.values():
            if ours.open is not None and now > ours.open.ends_by:
                ours.epoch += 1  # or the producer that took too long could still commit
                self._end(ours, committed=False)
        for group in self.groups.values():
            for member in list(group.members.values()):
                if now - member.polled > member.patience_s:
                    group.leave(member, self.partitions(member.topic))
                    self.changed.notify_all()

    def create(self, spec: TopicSpec) -> bool:
        """Create a topic; False if it exists already."""
        if spec.name in self.topics:
            return False
        logs = [_Log(TopicPartition(spec.name, number)) for number in range(spec.partitions)]
        self.topics[spec.name] = _Topic(spec, logs)
        self._share(spec.name)
        return True

    def delete(self, topic: str) -> None:
        """Delete a topic, and the offsets that groups committed in it."""
        if self.topics.pop(topic, None) is None:
            raise TopicMissing(f"delete topic {topic}: there is none")
        for group in self.groups.values():
            group.committed = {p: at for p, at in group.committed.items() if p.topic != topic}
        self._share(topic)

    def _share(self, topic: str) -> None:
        for group in self.groups.values():
            if any(member.topic == topic for member in group.members.values()):
                group.share(topic, self.partitions(topic))
        self.changed.notify_all()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; none if it does not exist."""
        return [log.partition for log in self.topics[topic].logs] if topic in self.topics else []

    def log(self, partition: TopicPartition) -> _Log:
        if partition.topic not in self.topics:
            raise TopicMissing(f"there is no topic {partition.topic}")
        logs = self.topics[partition.topic].logs
        if not 0 <= partition.partition < len(logs):
            raise BrokerError(f"there is no partition {partition}: {len(logs)} are there, from 0")
        return logs[partition.partition]

    def group(self, name: str) -> _Group:
        """The group with this name; created on first use."""
        return self.groups.setdefault(name, _Group(name))

    def write(self, record: OutgoingRecord, owner: Owner | None) -> None:
        """Write a record to its partition: as given, else by its key, else round robin. It is part
        of the owner's open transaction, if there is one."""
        # First: a producer that was fenced is told so, whatever it sends.
        transaction = None if owner is None else self._of(owner).open
        topic = self.topics.get(record.topic)
        if topic is None:
            raise TopicMissing(f"publish to {record.topic}: there is no such topic")
        if record.partition is not None:
            number = record.partition
        elif record.key is not None:
            number = _partition_of(record.key, len(topic.logs))
        else:
            topic.unkeyed += 1
            number = topic.unkeyed % len(topic.logs)
        log = self.log(TopicPartition(record.topic, number))
        limit = topic.spec.max_message_bytes
        if record.size > limit:
            raise MessageTooLarge(f"{record.size} bytes are more than the topic takes: {limit}")
        sent_ms = None if topic.spec.broker_clock else record.timestamp_ms
        now_ms = round(self._wall_clock() * 1000)
        log.append(record, now_ms if sent_ms is None else sent_ms, transaction)
        self.changed.notify_all()

    def take_over(self, name: str) -> int:
        """Return the epoch for a new producer under a name, and fence the previous one."""
        transactions = self._names.setdefault(name, _Transactions())
        # Else readers and groups would wait for the former owner's transaction until it times out.
        self._end(transactions, committed=False)
        transactions.epoch += 1
        return transactions.epoch

    def begin(self, owner: Owner, timeout_s: float) -> None:
        self._of(owner).open = _Transaction(self.clock.now() + timeout_s)

    def add_positions(
        self, owner: Owner, offsets: Mapping[TopicPartition, int], group: GroupMetadata
    ) -> None:
        """Commit a group's positions together with the open transaction."""
        transaction = self._of(owner).open
        assert transaction is not None, "no transaction was begun"
        self.group(group.group).check(group)
        transaction.positions.setdefault(group.group, {}).update(offsets)

    def end(self, owner: Owner, *, committed: bool) -> None:
        """End the open transaction, if there is one."""
        self._end(self._of(owner), committed=committed)

    def _of(self, owner: Owner) -> _Transactions:
        name, epoch = owner
        transactions = self._names[name]
        if transactions.epoch != epoch:
            raise Fenced(f"the transactions of {name} are another producer's, or took too long")
        return transactions

    def _end(self, transactions: _Transactions, *, committed: bool) -> None:
        transaction, transactions.open = transactions.open, None
        if transaction is not None:
            transaction.committed = committed
            for log in transaction.wrote_to.values():
                log.mark_end()
            if committed:
                for group, positions in transaction.positions.items():
                    self.group(group).committed |= positions
        self.changed.notify_all()

    def is_held(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction may change the group's position in the partition."""
        pending = (ours.open for ours in self._names.values() if ours.open is not None)
        return any(partition in transaction.positions.get(group, ()) for transaction in pending)
