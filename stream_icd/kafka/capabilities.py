"""Find out what the broker guarantees; not every Kafka-protocol broker gives all guarantees."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import Future
from dataclasses import replace

from stream_icd.errors import BrokerError, BrokerUnavailable
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port.capabilities import KAFKA, MEMORY, Capabilities
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.port.producer import Producer
from stream_icd.kafka.port.topic import MINUTE_MS, TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics

TESTED = TopicSpec("icd.probe.v1", retention_ms=60 * MINUTE_MS)
"""The one topic on which brokers are tested. It stays: two workers may test at the same time."""
TRANSACTION_TIMEOUT_S = 1.0
READ_BACK_TIMEOUT_S = 30.0
"""Readers wait for the open transaction of a worker that was killed while it tested. A broker ends
it after its timeout, and may look only every 10 s."""
SHORT_SESSION_S = 3.0


def recognise(settings: KafkaSettings) -> Capabilities:
    """The known capabilities of this kind of broker; reads its API versions and writes nothing.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    with connect(settings).admin() as admin:
        return admin.known_capabilities()


def joining_quickly(settings: KafkaSettings) -> KafkaSettings:
    """The settings with which a member joins a group soon.

    They differ only where joining takes half a session timeout, and nobody has set this.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    if "session_timeout_s" in settings.model_fields_set or recognise(settings).joins_at_once:
        return settings
    shorter = {
        "session_timeout_s": SHORT_SESSION_S,
        "heartbeat_interval_s": min(settings.heartbeat_interval_s, SHORT_SESSION_S / 3),
    }
    return settings.model_copy(update=shorter)


def probe(settings: KafkaSettings) -> Capabilities:
    """The result of `recognise`; a broker of another kind is tested: does it hide aborted records?

    Apache Kafka is not tested, and nothing is written to it. On other brokers, the test aborts a
    transaction on the topic `icd.probe.v1`, which it creates, and reads it back. If topic creation
    is not allowed, the result of `recognise` is returned unchanged.

    Raises:
        BrokerUnavailable: no broker answers.
    """
    known = recognise(settings)
    if known in (KAFKA, MEMORY):
        return known
    place, name = TopicPartition(TESTED.name, 0), uuid.uuid4().hex
    try:
        create_topics(settings, [TESTED])
        with connect(settings).admin() as admin:
            start = admin.ends([place])[place]
        _write_one_aborted_and_one_committed(settings, place, name)
        first = _first_value_of(settings, place, start, name)
    except BrokerUnavailable:
        raise
    except BrokerError:
        return known
    return replace(known, hides_aborted=first == _value(name, "committed"))


def _write_one_aborted_and_one_committed(
    settings: KafkaSettings, place: TopicPartition, name: str
) -> None:
    brief = settings.model_copy(update={"transaction_timeout_s": TRANSACTION_TIMEOUT_S})
    producer = connect(brief).transactional_producer(f"{place.topic}-{name}")
    try:
        producer.begin_transactions()
        producer.begin()
        _write(producer, place, _value(name, "aborted"), settings.request_timeout_s)
        producer.abort()
        producer.begin()
        _write(producer, place, _value(name, "committed"), settings.request_timeout_s)
        producer.commit()
    finally:
        producer.close(1.0)


def _value(name: str, what: str) -> bytes:
    """The value of a record that the test with this name writes; other tests use other names."""
    return f"{name} {what}".encode()


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


def _first_value_of(settings: KafkaSettings, place: TopicPartition, start: int, name: str) -> bytes:
    reader = connect(settings).reader()
    try:
        reader.assign([place])
        reader.seek(place, start)
        deadline = time.monotonic() + READ_BACK_TIMEOUT_S
        while time.monotonic() < deadline:
            for record in reader.poll(0.2).get(place, ()):
                if record.value and record.value.startswith(name.encode()):
                    return record.value
        raise BrokerUnavailable(f"{place.topic} gave nothing back")
    finally:
        reader.close()
