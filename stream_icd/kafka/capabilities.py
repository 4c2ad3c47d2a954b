"""What the broker at hand can promise: not everything that speaks Kafka's protocol keeps it all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kafka import TopicPartition
from kafka import errors as client
from kafka.protocol.api_key import ApiKey

from stream_icd.errors import BrokerError, BrokerUnavailable
from stream_icd.kafka.clients import open_admin, open_consumer, open_producer
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import TopicSpec, create_topics
from stream_icd.kafka.translate import translated

READ_BACK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What may be relied on.

    Attributes:
        software: "kafka", or "tansu" (the embedded broker).
        hides_aborted: readers of committed records never see an aborted transaction's, which is
            what exactly-once rests on.
        exact_end_offsets: asking for the end of a partition gives its end.
        exact_times: asking for the offset of a time goes by the records' timestamps.
        enforces_message_size: the broker itself refuses records above `max.message.bytes`.
        expires: retention removes old records, and compaction superseded ones.
        persistent: records survive a restart of the broker.
    """

    software: str
    hides_aborted: bool
    exact_end_offsets: bool
    exact_times: bool
    enforces_message_size: bool
    expires: bool
    persistent: bool


KAFKA = Capabilities("kafka", True, True, True, True, True, True)
TANSU = Capabilities("tansu", False, False, False, False, False, False)


def recognise(settings: KafkaSettings) -> Capabilities:
    """What is known of this kind of broker; asks for its protocol's versions, and writes nothing.

    Raises:
        BrokerUnavailable: nobody answers.
    """
    with open_admin(settings) as admin, translated("ask the broker what it supports"):
        # Apache Kafka has it since 0.11, tansu has not; a cluster's id can be anything.
        return KAFKA if ApiKey.OffsetForLeaderEpoch in admin.api_versions() else TANSU


def probe(settings: KafkaSettings) -> Capabilities:
    """What `recognise` says, and whether aborted records are hidden by trying it.

    Aborts a transaction on a throwaway topic, reads the topic back, and deletes it. Where topics
    may not be created, what is known of the kind of broker stands.

    Raises:
        BrokerUnavailable: nobody answers.
    """
    known = recognise(settings)
    try:
        with _throwaway_topic(settings) as topic, translated("try a transaction"):
            _write_one_aborted_and_one_committed(settings, topic)
            seen = _first_committed_value(settings, topic)
    except BrokerUnavailable:
        raise
    except BrokerError:
        return known
    return replace(known, hides_aborted=seen == b"committed")


@contextmanager
def _throwaway_topic(settings: KafkaSettings) -> Iterator[str]:
    topic = f"stream-icd-probe-{uuid.uuid4().hex}"
    create_topics(settings, [TopicSpec(topic)])
    try:
        yield topic
    finally:
        with open_admin(settings) as admin, translated(f"delete topic {topic}"):
            admin.delete_topics([topic])


def _write_one_aborted_and_one_committed(settings: KafkaSettings, topic: str) -> None:
    producer = open_producer(settings, transactional_id=topic)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted").get(settings.request_timeout_s)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"committed").get(settings.request_timeout_s)
        producer.commit_transaction()
    finally:
        producer.close(timeout=1)


def _first_committed_value(settings: KafkaSettings, topic: str) -> Any:
    consumer = open_consumer(settings)
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        for _ in range(round(READ_BACK_TIMEOUT_S / 0.2)):
            for record in consumer.poll(timeout_ms=200).get(partition, ()):
                return record.value
        raise client.KafkaTimeoutError(f"{topic} gave nothing back")
    finally:
        consumer.close()
