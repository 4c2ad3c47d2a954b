"""Choose the implementation of the port, the only module that knows them all; and add a prefix.

With a prefix, several installations share one cluster: topics, groups and transactional ids have
it at the broker, and nowhere else. Above the port, and so in code, records and metrics,
`icd.snapshots.v1` has the same name everywhere. Topics without the prefix do not exist here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from stream_icd.kafka.port import (
    Admin,
    Broker,
    Capabilities,
    ExistingTopic,
    GroupMetadata,
    Listener,
    Member,
    Offsets,
    Partitions,
    Polled,
    Producer,
    Reader,
    Settled,
    TopicPartition,
    TopicSpec,
    TransactionalProducer,
    Undecodable,
)
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import MEMORY_SCHEME, KafkaSettings, check_that_somebody_listens
from stream_icd.kafka.waiting import Outage, Stop, insist


def connect(settings: KafkaSettings) -> Broker:
    """The broker that the settings name; it connects when you open something on it.

    `memory://NAME` is the in-memory broker of that name; others are reached by kafka-python. With a
    `topic_prefix`, all names have it there.

    Raises:
        BrokerUnavailable: no such in-memory broker runs.
    """
    broker = _reached(settings)
    return _TenantBroker(broker, settings.topic_prefix) if settings.topic_prefix else broker


def _reached(settings: KafkaSettings) -> Broker:
    if settings.bootstrap_servers.startswith(MEMORY_SCHEME):
        from stream_icd.kafka.in_process.broker import MemoryConnection

        return MemoryConnection(settings)
    from stream_icd.kafka.client.broker import ClientBroker

    return ClientBroker(settings)


def recognise(settings: KafkaSettings) -> Capabilities:
    """The capabilities of this kind of broker; reads its API versions and writes nothing."""
    with connect(settings).admin() as admin:
        return admin.known_capabilities()


def wait_for_broker(settings: KafkaSettings, outage: Outage, stop: threading.Event) -> None:
    """Return when a broker answers; raises as `insist`, and `BadSettings` if it refuses us."""

    def ask() -> None:
        check_that_somebody_listens(settings)
        recognise(settings)

    insist(ask, outage, stop)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """Names with a prefix, as the broker has them (`theirs`), and without (`ours`)."""

    text: str

    def theirs(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.text + partition.topic, partition.partition)

    def ours(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(partition.topic.removeprefix(self.text), partition.partition)

    def all_ours(self, partitions: Partitions) -> list[TopicPartition]:
        return list(map(self.ours, partitions))

    def offsets(self, ask: Callable[..., Offsets], partitions: Partitions, *rest: Any) -> Offsets:
        """The answer to a question about partitions; `rest` is what else the question says."""
        return self.offsets_ours(ask(list(map(self.theirs, partitions)), *rest))

    def offsets_ours(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        return {self.ours(partition): at for partition, at in offsets.items()}

    def offsets_theirs(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        return {self.theirs(partition): at for partition, at in offsets.items()}


@dataclass(frozen=True, slots=True)
class _TenantAdmin:
    """Implements the port's Admin."""

    _admin: Admin
    _prefix: _Prefix

    def known_capabilities(self) -> Capabilities:
        return self._admin.known_capabilities()

    def topic_names(self) -> list[str]:
        text = self._prefix.text
        names = self._admin.topic_names()
        return [name.removeprefix(text) for name in names if name.startswith(text)]

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        existing = self._admin.describe_topic(self._prefix.text + topic)
        return None if existing is None else replace(existing, name=topic)

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        theirs = [replace(spec, name=self._prefix.text + spec.name) for spec in specs]
        created = self._admin.create_topics(theirs)
        return frozenset(name.removeprefix(self._prefix.text) for name in created)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topic(self._prefix.text + topic)

    def begins(self, partitions: Partitions) -> Offsets:
        return self._prefix.offsets(self._admin.begins, partitions)

    def ends(self, partitions: Partitions) -> Offsets:
        return self._prefix.offsets(self._admin.ends, partitions)

    def group_offsets(self, group: str) -> Offsets:
        return self._prefix.offsets_ours(self._admin.group_offsets(self._prefix.text + group))

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._admin.move_group(self._prefix.text + group, self._prefix.offsets_theirs(offsets))

    def members(self, group: str) -> dict[str, str]:
        return self._admin.members(self._prefix.text + group)


@dataclass(slots=True)
class _TenantReader:
    """Implements the port's Reader."""

    _reader: Reader
    _prefix: _Prefix

    def partitions(self, topic: str) -> int:
        return self._reader.partitions(self._prefix.text + topic)

    def assign(self, partitions: Partitions) -> None:
        self._reader.assign([self._prefix.theirs(partition) for partition in partitions])

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._prefix.all_ours(self._reader.assigned()))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._reader.seek(self._prefix.theirs(partition), offset)

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        try:
            polled = self._reader.poll(timeout_s, max_records)
        except Undecodable as error:
            raise Undecodable(str(error), self._prefix.ours(error.partition), error.end) from error
        ours = {self._prefix.ours(p): records for p, records in polled.items()}
        return {p: [replace(r, topic=p.topic) for r in records] for p, records in ours.items()}

    def position(self, partition: TopicPartition) -> int | None:
        return self._reader.position(self._prefix.theirs(partition))

    def fetched_end(self, partition: TopicPartition) -> int | None:
        return self._reader.fetched_end(self._prefix.theirs(partition))

    def begins(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:
        return self._prefix.offsets(self._reader.begins, partitions, timeout_s)

    def ends(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:
        return self._prefix.offsets(self._reader.ends, partitions, timeout_s)

    def at_time(self, partitions: Partitions, timestamp_ms: int) -> Offsets:
        return self._prefix.offsets(self._reader.at_time, partitions, timestamp_ms)

    def close(self) -> None:
        self._reader.close()


@dataclass(frozen=True, slots=True)
class _Told:
    """Implements the port's Listener: passes partitions on without the prefix."""

    _listener: Listener
    _prefix: _Prefix

    def assigned(self, partitions: Partitions) -> None:
        self._listener.assigned(self._prefix.all_ours(partitions))

    def revoked(self, partitions: Partitions) -> None:
        self._listener.revoked(self._prefix.all_ours(partitions))


@dataclass(slots=True)
class _TenantMember(_TenantReader):
    """Implements the port's Member."""

    _reader: Member

    def subscribe(self, topic: str, listener: Listener) -> None:
        self._reader.subscribe(self._prefix.text + topic, _Told(listener, self._prefix))

    def pause(self, partition: TopicPartition) -> None:
        self._reader.pause(self._prefix.theirs(partition))

    def resume(self, partition: TopicPartition) -> None:
        self._reader.resume(self._prefix.theirs(partition))

    def group(self) -> GroupMetadata:
        theirs = self._reader.group()
        return replace(theirs, group=theirs.group.removeprefix(self._prefix.text))

    def silence_s(self) -> float:
        return self._reader.silence_s()

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._reader.commit(self._prefix.offsets_theirs(offsets), timeout_s)

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        return self._reader.committed(self._prefix.theirs(partition), timeout_s)


@dataclass(slots=True)
class _TenantProducer:
    """Implements the port's Producer."""

    _producer: Producer
    _prefix: _Prefix

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        self._producer.send(replace(record, topic=self._prefix.text + record.topic), settled)

    def close(self, timeout_s: float) -> None:
        self._producer.close(timeout_s)


@dataclass(slots=True)
class _TenantTransactionalProducer(_TenantProducer):
    """Implements the port's TransactionalProducer."""

    _producer: TransactionalProducer

    def begin(self) -> None:
        self._producer.begin()

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        theirs = replace(group, group=self._prefix.text + group.group)
        self._producer.send_offsets(self._prefix.offsets_theirs(offsets), theirs)

    def commit(self) -> None:
        self._producer.commit()

    def abort(self) -> None:
        self._producer.abort()


class _TenantBroker:
    """Implements the port's Broker on another one, with this prefix before all names."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self._broker, self._prefix = broker, _Prefix(prefix)

    @contextmanager
    def admin(self) -> Iterator[_TenantAdmin]:
        with self._broker.admin() as admin:
            yield _TenantAdmin(admin, self._prefix)

    def producer(self) -> _TenantProducer:
        return _TenantProducer(self._broker.producer(), self._prefix)

    def transactional_producer(self, name: str) -> _TenantTransactionalProducer:
        producer = self._broker.transactional_producer(self._prefix.text + name)
        return _TenantTransactionalProducer(producer, self._prefix)

    def reader(self, stop: Stop | None = None) -> _TenantReader:
        return _TenantReader(self._broker.reader(stop), self._prefix)

    def member(self, group: str, max_records: int, stop: Stop) -> _TenantMember:
        member = self._broker.member(self._prefix.text + group, max_records, stop)
        return _TenantMember(member, self._prefix)
