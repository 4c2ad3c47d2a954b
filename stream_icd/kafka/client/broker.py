"""Brokers that kafka-python reaches over the network, and their administration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import errors as client
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.api_key import ApiKey

from stream_icd.errors import BrokerError
from stream_icd.kafka.client.connections import (
    all_theirs,
    milliseconds,
    open_admin,
    open_consumer,
    open_producer,
    positions,
)
from stream_icd.kafka.client.member import ClientMember
from stream_icd.kafka.client.producer import ClientProducer, ClientTransactionalProducer
from stream_icd.kafka.client.reader import ClientReader
from stream_icd.kafka.client.translate import translate, translated
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.port import (
    KAFKA,
    TANSU,
    UNKNOWN,
    Capabilities,
    ExistingTopic,
    Offsets,
    Partitions,
    TopicPartition,
    TopicSpec,
)
from stream_icd.kafka.settings import KafkaSettings

_EXISTS = client.TopicAlreadyExistsError.errno


class ClientAdmin:
    """Implements the port's Admin, on a connection that the caller opens and closes."""

    def __init__(self, admin: Any, settings: KafkaSettings) -> None:
        self._admin = admin
        self._timeout_ms = milliseconds(settings.request_timeout_s)

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
            (described,) = self._admin.describe_topics([topic])
            if described["error_code"] == client.TopicAuthorizationFailedError.errno:
                raise client.TopicAuthorizationFailedError(topic)
            if _failed(described) or not described["partitions"]:
                return None
            return ExistingTopic(topic, len(described["partitions"]), self._message_limit(topic))

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        wanted = {
            spec.name: {
                "num_partitions": spec.partitions,
                "replication_factor": spec.replication,
                "configs": spec.configs(),
            }
            for spec in specs
        }
        with translated("create topics"):
            described = self._admin.describe_topics(list(wanted))
            there = {topic["name"] for topic in described if not _failed(topic)}
            missing = {name: request for name, request in wanted.items() if name not in there}
            created = self._create(missing) if missing else frozenset()
            self._admin.wait_for_topics(list(wanted), timeout_ms=self._timeout_ms)
        return created

    def _create(self, missing: dict[str, dict[str, Any]]) -> frozenset[str]:
        answer = self._admin.create_topics(missing, timeout_ms=self._timeout_ms, raise_errors=False)
        for topic in answer["topics"]:
            if _failed(topic) and topic["error_code"] != _EXISTS:
                error = client.for_code(topic["error_code"])(topic.get("error_message") or "")
                raise translate(error, f"create topic {topic['name']}") from error
        return frozenset(
            topic["name"] for topic in answer["topics"] if topic["error_code"] != _EXISTS
        )

    def delete_topic(self, topic: str) -> None:
        with translated(f"delete topic {topic}"):
            self._admin.delete_topics([topic])

    def begins(self, partitions: Partitions) -> Offsets:
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def ends(self, partitions: Partitions) -> Offsets:
        return self._offsets(partitions, OffsetSpec.LATEST)

    def _offsets(self, partitions: Partitions, spec: Any) -> Offsets:
        with translated("look up offsets"):
            found = self._admin.list_partition_offsets(dict.fromkeys(all_theirs(partitions), spec))
        return {partition: int(found[partition].offset) for partition in partitions}

    def group_offsets(self, group: str) -> Offsets:
        with translated(f"look up group {group}"):
            found = self._admin.list_group_offsets(group)[group]
        return {TopicPartition(*p): int(at.offset) for p, at in found.items() if at.offset >= 0}

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        with translated(f"move group {group} on"):
            answers = self._admin.alter_group_offsets(group, positions(offsets))
        for partition, answer in sorted(answers.items()):
            if answer in (client.UnknownMemberIdError, client.RebalanceInProgressError):
                raise BrokerError(f"group {group} still has running members: stop them first")
            if answer is not client.NoError:
                place = f"partition {partition.partition}"
                raise translate(answer(), f"move group {group} on in {place}")

    def members(self, group: str) -> dict[str, str]:
        with translated(f"look up group {group}"):
            members = self._admin.describe_groups([group])[group]["members"]
        return {one["member_id"]: one["client_id"] for one in members}

    def _message_limit(self, topic: str) -> int | None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        try:
            answer = self._admin.describe_configs([resource], config_filter="all")
        except client.KafkaError:  # some brokers do not tell every client
            return None
        for resources in answer.values():
            if "max.message.bytes" in resources.get(topic, {}):
                return int(resources[topic]["max.message.bytes"]["value"])
        return None


def _failed(answer: dict[str, Any]) -> bool:
    return bool(answer["error_code"] != 0)


class ClientBroker:
    """Implements the port's Broker with the addresses, login and timeouts of the settings."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    @contextmanager
    def admin(self) -> Iterator[ClientAdmin]:
        with open_admin(self._settings) as admin:
            yield ClientAdmin(admin, self._settings)

    def producer(self) -> ClientProducer:
        return ClientProducer(open_producer(self._settings))

    def transactional_producer(self, name: str) -> ClientTransactionalProducer:
        return ClientTransactionalProducer(open_producer(self._settings, name), name)

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
