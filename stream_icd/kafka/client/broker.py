"""Reach brokers with kafka-python: administrate them, and publish to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kafka import errors as client
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.api_key import ApiKey
from kafka.structs import ConsumerGroupMetadata

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    DeliveryFailed,
    MessageTooLarge,
    NotAllowed,
)
from stream_icd.kafka.client.connections import (
    all_theirs,
    milliseconds,
    open_admin,
    open_consumer,
    open_producer,
    their_offsets,
)
from stream_icd.kafka.client.reader import CLOSE_TIMEOUT_S, ClientMember, ClientReader
from stream_icd.kafka.client.translate import GROUP_MOVED_ON, TOO_LARGE, translate, translated
from stream_icd.kafka.port import (
    KAFKA,
    TANSU,
    UNKNOWN,
    Capabilities,
    ExistingTopic,
    Fenced,
    GroupMetadata,
    GroupMovedOn,
    Offsets,
    Partitions,
    Settled,
    TopicPartition,
    TopicSpec,
)
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Stop

# Brokers of a cluster learn of a new topic one after the other.
_KNOWN_WITHIN_S, _LOOK_AGAIN_S = 3.0, 0.1


@dataclass(frozen=True, slots=True)
class _ClientAdmin:
    """Implements the port's Admin."""

    _admin: Any
    _timeout_ms: int

    def known_capabilities(self) -> Capabilities:
        with translated("ask the broker what it supports"):
            apis = self._admin.api_versions()
        # A cluster id proves nothing. With the first API, which Apache Kafka has since 0.11, its
        # brokers write the markers that hide aborted records; it is their own affair, so others do
        # not need it. The second one, of the same age, is for consumers; tansu does not have it.
        if ApiKey.WriteTxnMarkers in apis:
            return KAFKA
        return UNKNOWN if ApiKey.OffsetForLeaderEpoch in apis else TANSU

    def topic_names(self) -> list[str]:
        with translated("list the topics"):
            return sorted(self._admin.list_topics())

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        with translated(f"look up topic {topic}"):
            n_partitions = self._n_partitions(topic)
            if not n_partitions and len(self._admin.describe_cluster()["brokers"]) > 1:
                known_by = time.monotonic() + _KNOWN_WITHIN_S
                while not n_partitions and time.monotonic() < known_by:
                    time.sleep(_LOOK_AGAIN_S)
                    n_partitions = self._n_partitions(topic)
            if not n_partitions:
                return None
            own = self._configs(topic)
            limit = int(own["max.message.bytes"]) if "max.message.bytes" in own else None
            is_compacted = "compact" in own.get("cleanup.policy", "")
            return ExistingTopic(topic, n_partitions, limit, is_compacted)

    def _n_partitions(self, topic: str) -> int:
        """How many partitions a topic has, as some broker knows; 0: it knows no such topic."""
        (described,) = self._admin.describe_topics([topic])
        return len(described["partitions"]) if _is_there(described) else 0

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        requests = {
            spec.name: {
                "num_partitions": spec.partitions,
                "replication_factor": -1,  # as the broker is set
                "configs": spec.configs(),
            }
            for spec in specs
        }
        with translated("create topics"):
            # First ask what is there: to create nothing, no right to create topics is needed.
            described = self._admin.describe_topics(list(requests))
            existing = {topic["name"] for topic in described if _is_there(topic)}
            missing = {name: request for name, request in requests.items() if name not in existing}
            created = self._create(missing) if missing else frozenset()
            # Brokers learn of a new topic one after the other.
            self._admin.wait_for_topics(list(requests), timeout_ms=self._timeout_ms)
        return created

    def _create(self, missing: dict[str, dict[str, Any]]) -> frozenset[str]:
        answer = self._admin.create_topics(missing, timeout_ms=self._timeout_ms, raise_errors=False)
        for topic in answer["topics"]:
            # Another program may have created it since we looked.
            if topic["error_code"] not in (0, client.TopicAlreadyExistsError.errno):
                error = client.for_code(topic["error_code"])(topic.get("error_message") or "")
                raise translate(error, f"create topic {topic['name']}") from error
        return frozenset(topic["name"] for topic in answer["topics"] if not topic["error_code"])

    def delete_topic(self, topic: str) -> None:
        with translated(f"delete topic {topic}"):
            self._admin.delete_topics([topic])

    def begins(self, partitions: Partitions) -> Offsets:
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def ends(self, partitions: Partitions) -> Offsets:
        return self._offsets(partitions, OffsetSpec.LATEST)

    def _offsets(self, partitions: Partitions, spec: Any) -> Offsets:
        specs = dict.fromkeys(all_theirs(partitions), spec)
        with translated("look up offsets"):
            try:
                answers = self._admin.list_partition_offsets(specs)
            except client.UnknownBrokerIdError as error:
                places = ", ".join(map(str, sorted(partitions)))
                raise BrokerUnavailable(f"no broker leads some of {places} now") from error
        return {partition: int(answers[partition].offset) for partition in partitions}

    def group_offsets(self, group: str) -> Offsets:
        with translated(f"look up group {group}"):
            committed = self._admin.list_group_offsets(group)[group]
        # The client reports -1 for a partition without a position.
        return {TopicPartition(*p): int(at.offset) for p, at in committed.items() if at.offset >= 0}

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        with translated(f"move group {group} on"):
            answers = self._admin.alter_group_offsets(group, their_offsets(offsets))
        for partition, answer in sorted(answers.items()):
            if answer in (client.UnknownMemberIdError, client.RebalanceInProgressError):
                raise BrokerError(f"group {group} still has running members: stop them first")
            if answer is not client.NoError:
                doing = f"move group {group} on in partition {partition.partition}"
                raise translate(answer(), doing)

    def members(self, group: str) -> dict[str, str]:
        with translated(f"look up group {group}"):
            members = self._admin.describe_groups([group])[group]["members"]
        return {member["member_id"]: member["client_id"] for member in members}

    def _configs(self, topic: str) -> dict[str, str]:
        """What is set for a topic; some brokers do not tell every client."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        with suppress(client.KafkaError):
            for resources in self._admin.describe_configs([resource], config_filter="all").values():
                return {name: of["value"] for name, of in resources.get(topic, {}).items()}
        return {}


def _is_there(described: dict[str, Any]) -> bool:
    if described["error_code"] == client.TopicAuthorizationFailedError.errno:
        raise client.TopicAuthorizationFailedError(f"may not describe {described['name']}")
    return bool(described["error_code"] == 0)


@dataclass(slots=True)
class _ClientProducer:
    """Implements the port's Producer; closes the client's producer."""

    _producer: Any

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        try:
            future = self._producer.send(
                record.topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except client.KafkaError as error:
            raise translate(error, f"publish to {record.topic}") from error
        except ValueError as error:
            raise BrokerError(f"publish to {record.topic}: {error}") from error
        future.add_callback(lambda _: settled(None))
        future.add_errback(lambda error: settled(_refusal(error, record.topic)))

    def close(self, timeout_s: float) -> None:
        self._producer.close(timeout_s)


@dataclass(slots=True)
class _ClientTransactionalProducer(_ClientProducer):
    """Implements the port's TransactionalProducer, under one name."""

    _name: str

    def begin(self) -> None:
        self._in_transaction(self._producer.begin_transaction)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        generation = ConsumerGroupMetadata(group.group, group.generation, group.member_id)
        send = self._producer.send_offsets_to_transaction
        self._in_transaction(send, their_offsets(offsets), generation)

    def commit(self) -> None:
        self._in_transaction(self._producer.commit_transaction)

    def abort(self) -> None:
        self._in_transaction(self._producer.abort_transaction)

    def _in_transaction(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except GROUP_MOVED_ON as error:
            raise GroupMovedOn(str(error)) from error
        except client.KafkaError as error:
            meant = translate(error, f"publish in a transaction as {self._name}")
            if isinstance(meant, NotAllowed):
                raise meant from error
            kind = Fenced if _is_fenced(error) else DeliveryFailed
            raise kind(f"the transaction did not succeed: {error}") from error


def _is_fenced(error: Exception) -> bool:
    fenced = (client.ProducerFencedError, client.InvalidProducerEpochError)
    in_words = client.ProducerFencedError.__name__  # if the client itself refuses
    return isinstance(error, fenced) or in_words in str(error)


def _refusal(error: Exception, topic: str) -> Exception:
    """The error that says why the broker refused a record."""
    if isinstance(error, TOO_LARGE):
        refused: Exception = MessageTooLarge(str(error))
    elif isinstance(translate(error, ""), NotAllowed):
        # All records of a transaction get it; it names the topics that were refused.
        topics = error.args[0] if error.args and isinstance(error.args[0], set) else {topic}
        refused = translate(error, f"publish to {', '.join(sorted(topics))}")
    elif isinstance(error, client.InvalidRecordError | client.InvalidTimestampError):
        of_time = "timestamp" in str(error).lower()  # the first is of either, if several are
        change = "message.timestamp settings" if of_time else "cleanup.policy, to delete"
        refused = BadSettings(f"publish to {topic}: {error}; change the topic's {change}")
    else:
        refused = Fenced(str(error)) if _is_fenced(error) else BrokerError(str(error))
    refused.__cause__ = error
    return refused


@dataclass(frozen=True, slots=True)
class ClientBroker:
    """Implements the port's Broker with the addresses, login and timeouts of the settings."""

    _settings: KafkaSettings

    @contextmanager
    def admin(self) -> Iterator[_ClientAdmin]:
        with open_admin(self._settings) as admin:
            yield _ClientAdmin(admin, milliseconds(self._settings.request_timeout_s))

    def producer(self) -> _ClientProducer:
        return _ClientProducer(open_producer(self._settings))

    def transactional_producer(self, name: str) -> _ClientTransactionalProducer:
        producer = open_producer(self._settings, name)
        try:
            with translated(f"begin transactions as {name}"):
                # Fences the former owner of the name, and ends its open transaction: before
                # anybody asks for offsets that this one holds.
                producer.init_transactions()
        except BaseException:
            producer.close(CLOSE_TIMEOUT_S)
            raise
        return _ClientTransactionalProducer(producer, name)

    def reader(self, stop: Stop | None = None) -> ClientReader:
        return ClientReader(open_consumer(self._settings), self._settings, stop)

    def member(self, group: str, max_records: int, stop: Stop) -> ClientMember:
        settings = self._settings
        consumer = open_consumer(
            settings,
            group_id=group,
            client_id=settings.member_name,
            max_poll_records=max_records,
            session_timeout_ms=milliseconds(settings.session_timeout_s),
            heartbeat_interval_ms=milliseconds(settings.heartbeat_interval_s),
            max_poll_interval_ms=milliseconds(settings.max_poll_interval_s),
            partition_assignment_strategy=(CooperativeStickyAssignor,),
        )
        return ClientMember(consumer, settings, stop)
