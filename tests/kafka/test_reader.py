"""Reading without a group: from anywhere, to the end or for ever, never over a gap."""

import errno
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.manager import KafkaConnectionManager

from stream_icd.core.errors import BadSettings, BrokerUnavailable, OffsetGone, TopicMissing
from stream_icd.kafka import reader, waiting
from stream_icd.kafka.client import connections
from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.client.workarounds import KafkaTCPTransport, NetworkSelector
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import Following, Start, TopicReader, open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.kafka.waiting import TaskThread
from tests.kafka.echo import MakeTopic, publish, values
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
        assert sorted(int(r.value or b"") for r in before) == list(range(30))
        assert sorted(int(r.value or b"") for r in after) == [100, 101, 102, 103]
        further = reader.records(dict.fromkeys(range(3), 10), "end")  # with the same connection
        assert sorted(int(r.value or b"") for r in further) == [100, 101, 102, 103]


def test_from_a_time_goes_by_the_records_own_clock_and_not_by_their_arrival(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic, now_ms = make_topic(), time.time_ns() // 1_000_000  # BASE_S may be long ago
    with Publisher(broker.settings()) as publisher:
        publisher.send(OutgoingRecord(topic, b"0", timestamp_ms=now_ms + 900_000))
        publisher.flush()
        time.sleep(0.02)
        start = datetime.now(UTC)
        publisher.send(OutgoingRecord(topic, b"1", timestamp_ms=now_ms - 900_000))
    assert numbers(broker, topic, start=start, until="end") == [0]


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
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_RETRY_S", 0.01)


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.brokers("memory")
def test_following_goes_on_with_the_same_record_after_an_error_that_nobody_expects(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    followed = Followed(broker, topic)
    following, followed.fails = followed.following, lambda value: value == b"20"
    with followed.running():
        wait_until(lambda: followed.attempts > 33)
        assert following.trouble == "AssertionError"
        assert following.caught_up.is_set()
        followed.fails = lambda _: False
        wait_until(lambda: sorted(followed.seen) == list(range(30)) and not following.trouble)
    (line,) = [line for line in caplog.records if line.levelno >= logging.WARNING]
    assert line.exc_info is not None


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.brokers("memory")
def test_following_from_now_on_takes_what_comes_after_its_start_and_nothing_else(
    broker: Broker, topic: str
) -> None:
    followed = Followed(broker, topic, "latest")
    followed.fails = lambda _: followed.attempts == 1
    with followed.running():
        assert followed.following.caught_up.wait(30)
        publish(broker.settings(), topic, 3, start=30)
        wait_until(lambda: len(followed.seen) >= 3, timeout_s=10)
    assert sorted(followed.seen) == [30, 31, 32]


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.brokers("memory")
def test_following_begins_again_where_a_later_topic_has_fewer_partitions(
    broker: Broker, topic: str
) -> None:
    """It was deleted and created again while the broker was away."""
    followed = Followed(broker, topic, {7: 3})
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


def remove_before(kafka: Broker, topic: str, offset: int) -> None:
    """Do at once what retention does in time."""
    with open_admin(kafka.settings()) as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})


@pytest.mark.kafka
def test_partitions_that_are_added_are_read_from_their_beginning(
    kafka: Broker, kafka_topic: str, stop: threading.Event
) -> None:
    with open_reader(kafka.settings(), kafka_topic, start="latest", stop=stop) as records:
        with open_admin(kafka.settings()) as admin:
            admin.create_partitions({kafka_topic: 3})
        with Publisher(kafka.settings()) as publisher:
            for partition in range(3):
                publisher.send(OutgoingRecord(kafka_topic, b"", partition=partition))
        assert sorted(next(records).partition for _ in range(3)) == [0, 1, 2]
        publish(kafka.settings(), kafka_topic, 9)
        assert len([next(records) for _ in range(9)]) == 9


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
