"""Nobody hangs on a record that the client cannot decode, or has no room for, or on the client."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch

from stream_icd.core.errors import (
    Action,
    BadSettings,
    ClientStuck,
    MessageTooLarge,
    RecordUndecodable,
)
from stream_icd.kafka.client import connections
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import Until, open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import skip
from tests.kafka.echo import Echo, MakeTopic, Pipe, publish
from tests.testbed import streams
from tests.testbed.brokers import Broker, wait_until

POISON = b"666"


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the client fail to decode each record whose value is `POISON`."""
    decode = DefaultRecordBatch._read_msg

    def fail(batch: Any, *arguments: Any) -> Any:
        record = decode(batch, *arguments)
        if record.value == POISON:
            raise CorruptRecordError("poison")
        return record

    monkeypatch.setattr(DefaultRecordBatch, "_read_msg", fail)


@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize(("before", "ahead"), [(0, False), (5, True)])
def test_a_group_stops_before_what_cannot_be_decoded_and_can_pass_over_it(
    broker: Broker, narrow: Pipe, before: int, ahead: bool
) -> None:
    topic, group = narrow.source, narrow.group
    narrow.publish(before)
    narrow.publish(1, start=int(POISON))
    narrow.publish(3, start=before)
    says = rf"{topic}\[0\] holds records that cannot be decoded, from offset {before} up to, not "
    says += rf"including, {before + 1} .*poison.* skip --group {group} .* --to 0:{before + 1}$"
    for _ in range(2):  # each time that it is started
        with narrow.echo(ahead=ahead) as echo:
            error = echo.failure(RecordUndecodable, says)
        assert error.action is Action.STOP
    assert skip(broker.settings(), topic, group, (0, before + 1)) == [(0, before, before + 1)]
    with pytest.raises(BadSettings, match=f"from offset {before + 1}"):
        skip(broker.settings(), topic, group, (0, before + 1))
    with narrow.echo() as later:
        wait_until(lambda: later.committed == 3)
    assert narrow.copied() == list(range(before + 3))


@pytest.mark.usefixtures("poison")
def test_a_reader_names_what_cannot_be_decoded_and_can_start_after_it(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic, seen = make_topic(), list[bytes | None]()
    first = b"0", b"1", POISON, b"2"
    streams.publish(broker, [OutgoingRecord(topic, value, b"k") for value in first])
    streams.publish(broker, [OutgoingRecord(topic, b"3", b"k")])
    says = rf"{topic}\[0\] holds records .* from offset 2 up to, not including, ([34]) .*"
    with (
        open_reader(broker.settings(), topic, until="end") as records,
        pytest.raises(RecordUndecodable, match=says + "start after") as stopped,
    ):
        seen.extend(record.value for record in records)
    assert seen == [b"0", b"1"]
    found = re.search(says, str(stopped.value))
    assert found
    end = int(found[1])  # of the batch: a slow machine sends what was published in two
    with open_reader(broker.settings(), topic, {0: end}, "end") as rest:
        assert [record.value for record in rest] == [b"2", b"3"][end - 3 :]


@pytest.mark.brokers("memory", "kafka")
def test_a_group_is_not_moved_beyond_the_end_of_its_topic(broker: Broker, narrow: Pipe) -> None:
    narrow.publish(1)
    with narrow.echo() as echo:
        wait_until(lambda: echo.committed == 1)
    narrow.publish(2, start=1)
    for to, says in (((0, 4), "ends at 3"), ((1, 1), "no partition 1")):
        with pytest.raises(BadSettings, match=says):
            skip(broker.settings(), narrow.source, narrow.group, to)


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have the client not return from a poll while this is set; nobody else closes it then."""
    hangs, over = threading.Event(), threading.Event()
    poll, consumers = KafkaConsumer.poll, set[Any]()

    def hanging(consumer: Any, *arguments: Any, **options: Any) -> Any:
        while hangs.is_set() and not over.is_set():
            consumers.add(consumer)
            over.wait(0.01)
        return {} if over.is_set() else poll(consumer, *arguments, **options)

    monkeypatch.setattr(KafkaConsumer, "poll", hanging)
    yield hangs
    over.set()
    for consumer in consumers:
        consumer.close()


@pytest.mark.brokers("embedded")
def test_a_worker_whose_client_does_not_return_names_where_it_reads(
    broker: Broker, narrow: Pipe, hang: threading.Event
) -> None:
    narrow.publish(3)
    with narrow.echo(settings=broker.settings(max_poll_interval_s=3.0)) as echo:
        wait_until(lambda: echo.committed == 3)
        hang.set()
        says = rf"not returned for 3 s.* {narrow.source}\[0\] at offset 3.* --to PARTITION:OFFSET"
        error = echo.failure(ClientStuck, says)
    assert error.action is Action.RETRY


@pytest.mark.brokers("embedded")
def test_who_is_asked_to_stop_ends_though_the_client_does_not_return(
    broker: Broker, narrow: Pipe, hang: threading.Event
) -> None:
    settings, seen = broker.settings(shutdown_timeout_s=1.0), list[Record]()
    narrow.publish(3)

    def follow(until: Until, stop: threading.Event) -> None:
        with open_reader(settings, narrow.source, until=until, stop=stop) as records:
            seen.extend(records)

    echo = narrow.echo(settings=settings)
    with echo, streams.beside(partial(follow, "forever")) as errors:
        wait_until(lambda: echo.committed == 3 and len(seen) == 3)
        hang.set()
    assert errors == []
    with streams.beside(partial(follow, "settled")) as errors:  # or does not tell the topic's end
        pass
    (error,) = errors
    assert isinstance(error, ClientStuck)


# A record that no answer has room for is named, not asked for again for ever.

TOO_LARGE = 60_000_000
SAYS = r"next record of %s\[0\] .* at most 5\d{7} bytes .* 60000\d{3}\)\. Set STREAM_ICD_MAX_MESS"


@pytest.fixture
def topic(broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three records, and one that is too large, for the smallest limit that the client accepts."""
    monkeypatch.setattr(connections, "_ANSWER_BYTES", 0)
    topic = make_topic(max_message_bytes=TOO_LARGE + 1_000_000)
    publish(broker.settings(), topic, 3, keys=1)
    with Publisher(taking_all(broker)) as publisher:
        publisher.send(OutgoingRecord(topic, bytes(TOO_LARGE), b"large"))
    return topic


def taking_all(broker: Broker) -> KafkaSettings:
    return broker.steady(max_message_bytes=TOO_LARGE + 1000, max_in_flight_bytes=10 * TOO_LARGE)


def came_before(broker: Broker) -> int:
    """The embedded broker puts what came before into the same answer, which is not taken."""
    return 3 if broker.name == "kafka" else 0


@pytest.mark.brokers("embedded")
def test_a_reader_says_so(broker: Broker, topic: str) -> None:
    seen: list[int] = []
    with (
        open_reader(broker.settings(), topic, until="end") as records,
        pytest.raises(MessageTooLarge, match=SAYS % topic) as refused,
    ):
        seen.extend(record.offset for record in records)
    assert len(seen) == came_before(broker)
    assert refused.value.action is Action.STOP
    with open_reader(taking_all(broker), topic, until="end") as records:
        assert [record.offset for record in records] == [0, 1, 2, 3]


@pytest.mark.brokers("kafka")
def test_a_member_of_a_group_stops_and_goes_on_with_more_room(
    broker: Broker, topic: str, make_topic: MakeTopic
) -> None:
    target, group = make_topic(max_message_bytes=TOO_LARGE + 1_000_000), f"group-{topic}"
    with Echo(broker.steady(), topic, target, group) as echo:
        echo.failure(MessageTooLarge, SAYS % topic)
    assert echo.committed == came_before(broker)
    with Echo(taking_all(broker), topic, target, group) as later:
        wait_until(lambda: later.committed == 4 - echo.committed)
