"""Records are published whole and in order, and read without a group: never over a gap."""

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import (
    BrokerResponseError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaConnectionError,
    KafkaTimeoutError,
)
from kafka.net.manager import KafkaConnectionManager

from stream_icd.core.errors import (
    BadSettings,
    BrokerUnavailable,
    MessageTooLarge,
    OffsetGone,
    RecordTooLarge,
    TopicMissing,
)
from stream_icd.kafka import reader, waiting
from stream_icd.kafka.client import connections
from stream_icd.kafka.client.broker import _refusal
from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.client.workarounds import KafkaTCPTransport, NetworkSelector
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher, SizeLimits
from stream_icd.kafka.reader import Following, Start, TopicReader, open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.kafka.waiting import TaskThread
from tests.kafka.echo import MakeTopic, publish, remove_before, values
from tests.testbed import streams
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import beside

pytestmark = pytest.mark.brokers("memory", "embedded", "kafka")

# A producer's clock that is ahead of the broker's. (What is older than a topic's retention would
# be gone at once, and an hour ahead is refused.)
BASE_S = int(time.time()) + 900


@pytest.fixture
def topic(broker: Broker, make_topic: MakeTopic) -> str:
    """30 records in 3 partitions, sent one by one and in batches, one for each second."""
    name = make_topic(partitions=3)
    with Publisher(broker.settings()) as publisher:
        for number in range(30):
            record = OutgoingRecord(
                name, b"%d" % number, partition=number % 3, timestamp_ms=(BASE_S + number) * 1000
            )
            publisher.send(record)
            if number < 10:
                publisher.flush()
    return name


def numbers(broker: Broker, topic: str, **how: object) -> list[int]:
    with open_reader(broker.settings(), topic, **how) as records:  # type: ignore[arg-type]
        return in_order(records)


def in_order(records: Iterable[Record]) -> list[int]:
    return sorted(int(record.value or b"") for record in records)


def test_reading_starts_where_it_is_asked_to_and_gives_each_record_once_in_order(
    broker: Broker, topic: str, make_topic: MakeTopic
) -> None:
    assert numbers(broker, topic, until="end") == list(range(30))
    assert len(numbers(broker, topic, limit=7)) == 7
    assert numbers(broker, topic, limit=0) == []
    assert numbers(broker, make_topic(partitions=2), until="end") == []
    with pytest.raises(TopicMissing, match="nowhere"):
        numbers(broker, "nowhere")
    since = datetime.fromtimestamp(BASE_S + 17, UTC)
    assert numbers(broker, topic, start=since, until="end") == list(range(17, 30))
    assert numbers(broker, topic, start=datetime.fromtimestamp(BASE_S + 99, UTC), until="end") == []
    with open_reader(broker.settings(), topic, start={0: 9, 1: 10, 2: 0}, until="end") as records:
        seen = [(r.partition, r.offset) for r in records]
    assert [place for place in seen if place[0] == 2] == [(2, offset) for offset in range(10)]
    assert [place for place in seen if place[0] != 2] == [(0, 9)]


def test_a_start_that_is_not_there_or_impossible_is_refused(broker: Broker, topic: str) -> None:
    says = r"from 0 up to, not including, 10; .* 11$"
    with pytest.raises(OffsetGone, match=says), open_reader(broker.settings(), topic, {1: 11}):
        pass
    for start in ({7: 0}, datetime(2020, 1, 1)):
        with pytest.raises(BadSettings), open_reader(broker.settings(), topic, start):
            pass


def test_end_and_latest_are_those_when_the_block_was_entered(broker: Broker, topic: str) -> None:
    with (
        open_reader(broker.settings(), topic, until="end") as before,
        open_reader(broker.settings(), topic, start="latest", limit=4) as after,
        closing(TopicReader(broker.settings(), topic)) as reader,
    ):
        assert len(list(reader.records(until="end"))) == 30
        publish(broker.settings(), topic, 4, start=100)
        assert in_order(before) == list(range(30))
        further = reader.records(dict.fromkeys(range(3), 10), "end")  # with the same connection
        assert in_order(after) == in_order(further) == [100, 101, 102, 103]


def test_a_follower_sees_a_record_soon_and_stops_soon(broker: Broker, topic: str) -> None:
    stop, waits = threading.Event(), list[float]()
    with (
        open_reader(broker.settings(), topic, start="latest", stop=stop) as records,
        Publisher(broker.settings()) as publisher,
    ):
        for _ in range(5):
            publisher.send(OutgoingRecord(topic, b"1"))
            publisher.flush()
            acknowledged = time.monotonic()
            next(records)
            waits.append(time.monotonic() - acknowledged)
        threading.Timer(0.5, stop.set).start()
        started = time.monotonic()
        assert list(records) == []
        assert time.monotonic() - started < 30
    assert sorted(waits)[2] < 0.3


@pytest.mark.brokers("memory", "kafka")
def test_a_quiet_topic_costs_little_and_its_next_record_comes_at_once(
    broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that shows five topics polled 25 times a second, for 3 % of a core."""
    topic, polls, stop = make_topic(), 0, threading.Event()
    monkeypatch.setattr(waiting, "_IDLE_AFTER_S", 0.5)
    monkeypatch.setattr(waiting, "IDLE_S", 10.0)
    poll = reader._poll

    def counted(*arguments: object) -> object:
        nonlocal polls
        polls += 1
        return poll(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "_poll", counted)
    with open_reader(broker.settings(), topic, stop=stop) as records:
        came = TaskThread("following").submit(lambda: next(records))
        time.sleep(3)
        assert polls <= 6
        publish(broker.settings(), topic, 1)
        assert came.result(5)


class Followed:
    """What a `Following` gives, which fails while `fails` says so of a record."""

    def __init__(self, broker: Broker, topic: str, start: Start = "beginning") -> None:
        self.seen: list[int] = []
        self.fails: Callable[[bytes | None], bool] = lambda _: False
        self.attempts = 0
        self.following = Following(broker.settings(), topic, self._take, threading.Event(), start)

    def running(self) -> AbstractContextManager[list[BaseException]]:
        return beside(lambda _: self.following.run(), self.following.stop)

    def _take(self, record: Record) -> None:
        self.attempts += 1
        if self.fails(record.value):
            raise AssertionError
        self.seen.append(int(record.value or b""))


@pytest.fixture
def follow(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Followed]:
    """`follow("latest")`, which tries again at once."""
    monkeypatch.setattr(reader, "_RETRY_S", 0.01)
    return partial(Followed, broker, topic)


@pytest.mark.brokers("memory")
def test_following_goes_on_with_the_same_record_after_an_error_that_nobody_expects(
    follow: Callable[..., Followed], caplog: pytest.LogCaptureFixture
) -> None:
    followed = follow()
    following, followed.fails = followed.following, lambda value: value == b"20"
    with followed.running():
        wait_until(lambda: followed.attempts > 33)
        assert following.trouble == "AssertionError"
        assert following.caught_up.is_set()
        followed.fails = lambda _: False
        wait_until(lambda: sorted(followed.seen) == list(range(30)) and not following.trouble)
    (line,) = [line for line in caplog.records if line.levelno >= logging.WARNING]
    assert line.exc_info is not None


@pytest.mark.brokers("memory")
def test_following_from_now_on_takes_what_comes_after_its_start_and_nothing_else(
    broker: Broker, topic: str, follow: Callable[..., Followed]
) -> None:
    followed = follow("latest")
    followed.fails = lambda _: followed.attempts == 1
    with followed.running():
        assert followed.following.caught_up.wait(30)
        publish(broker.settings(), topic, 3, start=30)
        wait_until(lambda: len(followed.seen) >= 3, timeout_s=10)
    assert sorted(followed.seen) == [30, 31, 32]


@pytest.mark.brokers("memory")
def test_following_begins_again_where_a_later_topic_has_fewer_partitions(
    follow: Callable[..., Followed],
) -> None:
    """It was deleted and created again while the broker was away."""
    followed = follow({7: 3})
    with followed.running():
        wait_until(lambda: len(followed.seen) == 30 and not followed.following.trouble)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set after half a minute, so that no reader waits for ever for what the client learns."""
    monkeypatch.setattr(connections, "_METADATA_AGE_MS", 200)
    stop = threading.Event()
    threading.Timer(30, stop.set).start()
    return stop


@pytest.fixture
def kafka_topic(kafka: Broker, topic_name: str) -> str:
    create_topics(kafka.settings(), [TopicSpec(topic_name)])
    publish(kafka.settings(), topic_name, 30)
    return topic_name


@pytest.mark.kafka
def test_a_reader_whose_connections_are_reset_for_a_while_goes_on_looking_for_partitions(
    kafka: Broker, kafka_topic: str, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a starting broker, before the first word of TLS: the client's own task that looks for
    them ended then, unsaid."""
    tries: list[object] = []
    is_old = hasattr(KafkaConnectionManager, "_build_transport")  # before 3.1
    connects = (
        (KafkaConnectionManager, "_build_transport")
        if is_old
        else (NetworkSelector, "create_connection")
    )

    async def reset(*_: object, **__: object) -> None:
        tries.append(_)
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    with open_reader(kafka.settings(), kafka_topic, start="latest", stop=stop) as records:
        following = TaskThread("following").submit(lambda: next(records))
        with monkeypatch.context() as meanwhile:
            lost = KafkaConnectionError("lost")
            meanwhile.setattr(KafkaTCPTransport, "_sock_send", lambda _: (0, lost))
            meanwhile.setattr(*connects, reset)
            wait_until(lambda: len(tries) >= 3)
        with open_admin(kafka.settings()) as admin:
            admin.create_partitions({kafka_topic: 2})
        with Publisher(kafka.settings()) as publisher:
            publisher.send(OutgoingRecord(kafka_topic, b"", partition=1))
        assert following.result(30).partition == 1


@pytest.mark.kafka
def test_a_position_that_retention_removed_is_an_error_and_a_beginning_is_what_is_left(
    kafka: Broker, kafka_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.settings()
    with (
        open_reader(settings, kafka_topic, start={0: 5}) as at_5,
        open_reader(settings, kafka_topic, start={0: 6}) as at_6,
        open_reader(settings, kafka_topic, until="end") as at_the_beginning,
    ):
        remove_before(kafka, kafka_topic, 20)  # before anything was fetched
        with pytest.raises(OffsetGone, match=r"what is left: .* from 20"):
            next(at_5)
        assert [record.offset for record in at_the_beginning] == list(range(20, 30))

        def unanswered(*_: object, **__: object) -> None:
            raise KafkaTimeoutError("no answer within 5000 ms")

        monkeypatch.setattr(KafkaConsumer, "beginning_offsets", unanswered)
        with pytest.raises(OffsetGone, match="lost it; what is left, the broker does not say now"):
            next(at_6)
    monkeypatch.undo()
    assert values(settings, kafka_topic) == list(range(20, 30))
    with (
        pytest.raises(OffsetGone, match="from 20 up to, not including, 30; .* 5$"),
        open_reader(settings, kafka_topic, start={0: 5}),
    ):
        pass


@pytest.mark.kafka
def test_a_topic_that_vanishes_before_it_is_read_is_not_waited_for_for_ever(
    kafka: Broker, kafka_topic: str
) -> None:
    settings = kafka.settings(connect_timeout_s=2)
    with closing(TopicReader(settings, kafka_topic)) as reader:
        with connect(settings).admin() as admin:
            admin.delete_topic(kafka_topic)
        with pytest.raises((BrokerUnavailable, TopicMissing)):
            wait_until(lambda: reader.records() is None)  # the broker deletes it a little later


@pytest.mark.kafka
def test_a_topic_that_was_deleted_and_created_again_while_reading_is_an_error(
    kafka: Broker, kafka_topic: str, stop: threading.Event
) -> None:
    """Its records have the offsets of others, which were read; it is noticed at the latest when
    the client renews what it knows of the topic."""
    with open_reader(kafka.settings(), kafka_topic, start={0: 29}, stop=stop) as records:
        next(records)
        with connect(kafka.settings()).admin() as admin:
            admin.delete_topic(kafka_topic)
            wait_until(lambda: admin.describe_topic(kafka_topic) is None)
        create_topics(kafka.settings(), [TopicSpec(kafka_topic)])
        publish(kafka.settings(), kafka_topic, 40)
        with pytest.raises(TopicMissing, match="was deleted and created again"):
            list(records)


# Publishing: everything arrives as it was, in order, or an error says what did not.


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
        publisher.send(OutgoingRecord(topic, sent[0], b"k"))
        with pytest.raises(MessageTooLarge, match=says):
            publisher.send(OutgoingRecord(topic, b"x" * (min(ours, topics) + 1), b"as733"))
        publisher.send(OutgoingRecord(topic, sent[1]))
    assert [r.value for r in streams.held(broker, topic)] == sent


def test_what_its_topic_took_its_dead_letter_topic_takes_with_the_reason(
    broker: Broker, topic_name: str
) -> None:
    create_topics(broker.settings(), TopicSpec(topic_name).with_dead_letters())
    largest = b"x" * (broker.settings().max_message_bytes - 100)
    why = ("icd_dlq_message", b"because" * 1000)
    letter = OutgoingRecord(f"{topic_name}.dlq", largest, headers=(why,))
    streams.publish(broker, [OutgoingRecord(topic_name, largest), letter])
    (record,) = streams.held(broker, f"{topic_name}.dlq")
    assert (record.value, record.headers) == (largest, (why,))


def test_what_only_the_broker_refuses_is_told_at_every_later_call(
    kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SizeLimits, "check", lambda *_: None)  # as if it was higher a moment ago
    create_topics(kafka.settings(), [TopicSpec(topic_name, max_message_bytes=1000)])
    publisher = Publisher(kafka.settings())
    publisher.send(OutgoingRecord(topic_name, b"small", b"k"))
    publisher.flush()
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

        def send(_: int) -> None:
            publisher.send(OutgoingRecord(topic, b"x" * 100_000))
            under_way.append(publisher.sent - publisher.acknowledged)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(send, range(60)))
        publisher.flush()
        assert (publisher.sent, publisher.acknowledged) == (60, 60)
        assert len(streams.held(broker, topic)) == 60
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


# Another client library, written in C, reads what we write, and we read what it writes.


@pytest.fixture
def confluent() -> Any:
    return pytest.importorskip("confluent_kafka", reason="pip install 'stream-icd[dev]'")


REAL = pytest.mark.brokers("embedded", "kafka")
NOW_MS = time.time_ns() // 1_000_000
VALUE = bytes(range(256)) * 4_000  # 1 MB
HEADERS = (
    ("ce_specversion", b"1.0"),
    ("ce_type", b"stream_icd.snapshot.v1"),
    ("ce_id", "as733/1999-04-02/é".encode()),
    ("content-type", b"application/vnd.apache.arrow.stream"),
)


@REAL
def test_we_read_what_another_client_writes(
    broker: Broker, make_topic: MakeTopic, confluent: Any
) -> None:
    topic, codecs = make_topic(), ["none"]
    if broker.name == "kafka":
        codecs += ["gzip", "lz4", "snappy", "zstd"]
    for codec in codecs:
        options = {"message.max.bytes": 2 * len(VALUE), "compression.type": codec}
        producer = confluent.Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
        producer.produce(topic, VALUE, codec, headers=list(HEADERS), timestamp=NOW_MS)
        assert producer.flush(60) == 0
    came = [(r.key, r.value, r.headers, r.timestamp_ms) for r in streams.held(broker, topic)]
    assert came == [(codec.encode(), VALUE, HEADERS, NOW_MS) for codec in codecs]


@REAL
def test_another_client_reads_what_we_write(
    broker: Broker, make_topic: MakeTopic, confluent: Any
) -> None:
    topic = make_topic()
    streams.publish(broker, [OutgoingRecord(topic, VALUE, b"as733", HEADERS, timestamp_ms=NOW_MS)])
    where = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic}
    consumer = confluent.Consumer(where)
    consumer.assign([confluent.TopicPartition(topic, 0, 0)])
    message = consumer.poll(60)
    consumer.close()
    assert message.error() is None
    assert (message.key(), message.value()) == (b"as733", VALUE)
    assert tuple(message.headers()) == HEADERS
    assert message.timestamp()[1] == NOW_MS
