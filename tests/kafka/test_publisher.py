"""Publishing: everything arrives as it was, in order, or an error says what did not."""

import threading
import time

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    BrokerResponseError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
)

from stream_icd.core.errors import BadSettings, MessageTooLarge, RecordTooLarge, TopicMissing
from stream_icd.kafka.client.broker import _refusal
from stream_icd.kafka.client.connections import open_admin, open_producer
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import create_topics
from tests.kafka.echo import MakeTopic
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import held, publish

pytestmark = pytest.mark.brokers("memory", "embedded", "kafka")

HEADERS = (("ce_id", b"as733/1999-04-02"), ("ce_id", b"twice"), ("empty", b""))


@pytest.mark.brokers("kafka")
def test_a_record_larger_than_what_a_fetch_asks_for_comes_whole(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """The client's default is to take 100 MB as one answer; Kafka's, 104.9 MB as one request."""
    settings = broker.settings(max_message_bytes=104_000_000, max_in_flight_bytes=10**9)
    topic = make_topic(max_message_bytes=104_500_000)
    sent = [b"%d" % number + bytes(101_000_000) for number in range(2)]
    with Publisher(settings) as publisher:
        for value in sent:
            publisher.send(OutgoingRecord(topic, value))
    with open_reader(settings, topic, until="end") as records:
        assert [record.value for record in records] == sent


@pytest.mark.parametrize(
    ("ours", "topics", "largest", "says"),
    [
        (10_000, 1_000_000, 9_000, r"10006 bytes .* key b'as733' .* 10000 bytes"),
        (1_000_000, 50_000, 49_000, r"50006 bytes"),
    ],
)
def test_a_record_above_our_limit_or_its_topics_is_refused_and_the_others_arrive(
    broker: Broker, make_topic: MakeTopic, ours: int, topics: int, largest: int, says: str
) -> None:
    topic, sent = make_topic(max_message_bytes=topics), [b"x" * largest, b"after"]
    with Publisher(broker.settings(max_message_bytes=ours)) as publisher:
        publisher.send(OutgoingRecord(topic, sent[0], b"k", HEADERS))
        with pytest.raises(MessageTooLarge, match=says):
            publisher.send(OutgoingRecord(topic, b"x" * (min(ours, topics) + 1), b"as733"))
        publisher.send(OutgoingRecord(topic, sent[1]))
    assert [r.value for r in held(broker, topic)] == sent


def test_what_its_topic_took_its_dead_letter_topic_takes_with_the_reason(
    broker: Broker, topic_name: str
) -> None:
    create_topics(broker.settings(), TopicSpec(topic_name).with_dead_letters())
    largest = b"x" * (broker.settings().max_message_bytes - 100)
    why = ("icd_dlq_message", b"because" * 1000)
    letter = OutgoingRecord(f"{topic_name}.dlq", largest, headers=(why,))
    publish(broker, [OutgoingRecord(topic_name, largest), letter])
    (record,) = held(broker, f"{topic_name}.dlq")
    assert (record.value, record.headers) == (largest, (why,))


def refuses(broker: Broker, topic: str, value: bytes) -> bool:
    """Whether the broker takes no such record, sent by who does not look at the limit."""
    producer = open_producer(broker.settings())
    try:
        producer.send(topic, value).get(60)
    except MessageSizeTooLargeError:
        return True
    finally:
        producer.close()
    return False


def test_what_only_the_broker_refuses_is_told_at_every_later_call(
    kafka: Broker, topic_name: str
) -> None:
    create_topics(kafka.settings(), [TopicSpec(topic_name)])
    publisher = Publisher(kafka.settings())
    publisher.send(OutgoingRecord(topic_name, b"small", b"k"))
    publisher.flush()
    limit = {"max.message.bytes": "1000"}
    with open_admin(kafka.settings()) as admin:  # somebody lowers it behind our back
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic_name, limit)])
    wait_until(lambda: refuses(kafka, topic_name, b"x" * 5_000))  # a moment later
    publisher.send(OutgoingRecord(topic_name, b"x" * 5_000, b"the key"))
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match=r"5007 bytes .*the key.* set STREAM_ICD") as error:
            publisher.flush()
        assert (error.value.topic, error.value.size) == (topic_name, 5007)
    with pytest.raises(RecordTooLarge):
        publisher.send(OutgoingRecord(topic_name, b"later"))
    assert (publisher.sent, publisher.acknowledged) == (2, 1)
    publisher.close()


def test_a_missing_topic_is_named_at_once(broker: Broker, topic_name: str) -> None:
    started = time.monotonic()
    with Publisher(broker.settings()) as publisher, pytest.raises(TopicMissing, match=topic_name):
        publisher.send(OutgoingRecord(topic_name, b"x"))
    assert time.monotonic() - started < 20  # left to itself, the client asks for a minute


def test_several_threads_may_share_a_publisher_that_has_no_more_under_way_than_allowed(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic, under_way = make_topic(), list[int]()
    with Publisher(broker.settings(max_in_flight_bytes=300_000)) as publisher:

        def send_some() -> None:
            for _ in range(15):
                publisher.send(OutgoingRecord(topic, b"x" * 100_000))
                under_way.append(publisher.sent - publisher.acknowledged)

        threads = [threading.Thread(target=send_some) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        publisher.flush()
        assert (publisher.sent, publisher.acknowledged) == (60, 60)
        assert len(held(broker, topic)) == 60
    assert max(under_way) <= 3


OUT_OF_RANGE = "Timestamp 0 of message with offset 0 is out of range"


@pytest.mark.parametrize(
    ("refusal", "setting"),
    [
        (InvalidTimestampError(OUT_OF_RANGE), "message.timestamp"),
        (InvalidRecordError(OUT_OF_RANGE), "message.timestamp"),  # of one record among several
        (InvalidRecordError("Compacted topic cannot accept message without key"), "cleanup.policy"),
    ],
)
def test_a_refusal_names_the_setting(refusal: BrokerResponseError, setting: str) -> None:
    meant = _refusal(refusal, "mine")
    assert isinstance(meant, BadSettings)
    assert f"change the topic's {setting}" in str(meant)
