"""Find out what the broker guarantees; not every Kafka-protocol broker gives all guarantees."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

from stream_icd.errors import BrokerError, BrokerUnavailable
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port.capabilities import Capabilities
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.port.producer import Producer
from stream_icd.kafka.port.topic import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics

READ_BACK_TIMEOUT_S = 10.0


def recognise(settings: KafkaSettings) -> Capabilities:
    """The known capabilities of this kind of broker; reads its API versions and writes nothing.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    with connect(settings).admin() as admin:
        return admin.known_capabilities()


def probe(settings: KafkaSettings) -> Capabilities:
    """The result of `recognise`, plus a real test whether the broker hides aborted records.

    Aborts a transaction on a temporary topic, reads the topic back, and deletes it. If topic
    creation is not allowed, the result of `recognise` is returned unchanged.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    known = recognise(settings)
    try:
        with _throwaway_topic(settings) as topic:
            _write_one_aborted_and_one_committed(settings, topic)
            seen = _first_committed_value(settings, topic)
    except BrokerUnavailable:
        raise
    except BrokerError:
        return known
    return replace(known, hides_aborted=seen == b"committed")


@contextmanager
def _throwaway_topic(settings: KafkaSettings) -> Iterator[TopicPartition]:
    topic = f"stream-icd-probe-{uuid.uuid4().hex}"
    create_topics(settings, [TopicSpec(topic)])
    try:
        yield TopicPartition(topic, 0)
    finally:
        with connect(settings).admin() as admin:
            admin.delete_topic(topic)


def _write_one_aborted_and_one_committed(settings: KafkaSettings, place: TopicPartition) -> None:
    producer = connect(settings).transactional_producer(place.topic)
    try:
        producer.begin_transactions()
        producer.begin()
        _write(producer, place, b"aborted", settings.request_timeout_s)
        producer.abort()
        producer.begin()
        _write(producer, place, b"committed", settings.request_timeout_s)
        producer.commit()
    finally:
        producer.close(1.0)


def _write(producer: Producer, place: TopicPartition, value: bytes, timeout_s: float) -> None:
    written: Future[None] = Future()

    def settled(refused: Exception | None) -> None:
        if refused is None:
            written.set_result(None)
        else:
            written.set_exception(refused)

    producer.send(OutgoingRecord(place.topic, value, partition=place.partition), settled)
    try:
        written.result(timeout_s)
    except TimeoutError as error:
        raise BrokerUnavailable(f"no record could be written within {timeout_s:g} s") from error


def _first_committed_value(settings: KafkaSettings, place: TopicPartition) -> bytes | None:
    reader = connect(settings).reader()
    try:
        reader.assign([place])
        reader.seek(place, 0)
        for _ in range(round(READ_BACK_TIMEOUT_S / 0.2)):
            for record in reader.poll(0.2).get(place, ()):
                return record.value
        raise BrokerUnavailable(f"{place.topic} gave nothing back")
    finally:
        reader.close()
