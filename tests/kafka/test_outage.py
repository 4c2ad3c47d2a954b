"""While the broker is away, programs wait with growing pauses, say so seldom, and lose nothing."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from kafka import errors as client

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    DeliveryFailed,
    NameTaken,
    NotSupported,
)
from stream_icd.kafka.client.translate import translate
from stream_icd.kafka.connect import recognise, wait_for_broker
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher, WaitingPublisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import SNAPSHOTS, create_topics, describe_topic
from stream_icd.kafka.waiting import Clock, Outage, insist
from tests.kafka.echo import Echo, MakeTopic, values
from tests.testbed.brokers import Broker, apache_kafka, free_ports, or_skip, wait_until

AWAY = BrokerUnavailable("nobody listens")


class Stop(threading.Event):
    """Waits on a clock of its own, so that no test waits."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.waited: list[float] = []
        self.clock = Clock(lambda: self.now)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now += timeout
        self.waited.append(timeout)
        return self.is_set()


@pytest.fixture
def stop() -> Stop:
    return Stop()


def failing(errors: Sequence[Exception], result: str = "there") -> Callable[[], str]:
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return result

    return work


def test_pauses_grow_and_there_is_a_line_a_minute(
    stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage(clock=stop.clock)
    assert insist(failing([AWAY] * 20), outage, stop) == "there"
    assert stop.waited[:4] == [1.0, 1.0, 1.0, 1.5]
    assert stop.waited == sorted(stop.waited)
    assert stop.waited[-1] == 15.0
    first, *more, last = caplog.messages
    assert first == "waiting for the broker: nobody listens"
    assert all(": nobody listens" in line and " s now)" in line for line in more)
    assert len(more) <= stop.now / 60
    assert last == f"the broker answers again, after {stop.now:.0f} s"
    assert outage.seconds is None


def test_it_gives_up_after_the_time_that_was_set(stop: Stop) -> None:
    with pytest.raises(BrokerUnavailable):
        insist(failing([AWAY] * 99), Outage(30.0, stop.clock), stop)
    assert 30 <= stop.now < 30 + 15.0
    with pytest.raises(BrokerUnavailable):
        insist(failing([AWAY]), Outage(0.0, stop.clock), stop)


def test_waiting_ends_when_it_cannot_help_or_nobody_wants_it(stop: Stop) -> None:
    for error in (NameTaken("another"), BadSettings("wrong")):
        with pytest.raises(type(error)):
            insist(failing([error]), Outage(clock=stop.clock), stop)
    stop.set()
    with pytest.raises(BrokerUnavailable):
        insist(failing([AWAY]), Outage(clock=stop.clock), stop)
    assert not stop.waited


def test_an_answer_from_before_the_outage_does_not_end_it(stop: Stop) -> None:
    outage = Outage(clock=stop.clock)
    stop.now = 10.0
    outage.failed(AWAY)
    stop.now = 15.0
    outage.answered(silence_s=7.0)
    assert outage.seconds == 5.0
    outage.answered(silence_s=3.0)
    assert outage.seconds is None


def test_a_broker_that_starts_later_is_found(embedded: Broker, stop: Stop) -> None:
    """Here, an address that becomes the right one."""
    servers = iter(["127.0.0.1:1", "127.0.0.1:1", embedded.bootstrap_servers])
    outage = Outage(clock=stop.clock)

    def ask() -> None:
        wait_for_broker(
            KafkaSettings(bootstrap_servers=next(servers)), Outage(0.0, stop.clock), stop
        )

    insist(ask, outage, stop)
    assert len(stop.waited) == 2


@pytest.mark.brokers("memory", "embedded")
def test_what_a_broker_did_not_acknowledge_is_sent_again_in_order(
    broker: Broker, make_topic: MakeTopic, stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker goes away with the third record, and is back after two more tries."""
    topic, sends, away = make_topic(), 0, 0
    send = Publisher.send

    def lossy(publisher: Publisher, record: OutgoingRecord) -> None:
        nonlocal sends, away
        sends += 1
        if sends == 3:  # it is queued, and nobody acknowledges it
            publisher.flush()  # those before are acknowledged
            away = 3
            publisher._take_room(record)
            return
        if away:
            away -= 1
            raise DeliveryFailed("away")
        send(publisher, record)

    monkeypatch.setattr(Publisher, "send", lossy)
    outage = Outage(clock=stop.clock)
    with WaitingPublisher(broker.settings(), outage, stop) as publisher:
        for number in range(6):
            publisher.send(OutgoingRecord(topic, b"%d" % number, b"graph"))
    assert values(broker.settings(), topic) == [0, 1, 2, 3, 4, 5]
    assert len(stop.waited) == 3


# With Apache Kafka itself, which is killed and started again, and has a listener that tells clients
# a name that nobody knows.


@pytest.fixture(scope="module")
def mortal() -> Iterator[tuple[Broker, str]]:
    """A Kafka of our own, and the address of its listener that is advertised wrongly."""
    right, wrong, controller = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{right},OUTSIDE://127.0.0.1:{wrong}"
    advertised = f"PLAINTEXT://127.0.0.1:{right},OUTSIDE://kafka.invalid:9092"
    control = f",CONTROLLER://127.0.0.1:{controller}"
    properties = {
        "controller_quorum_bootstrap_servers": f"127.0.0.1:{controller}",
        "listeners": listeners + control,
        "advertised_listeners": advertised + control,
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
    }
    with or_skip(apache_kafka(**properties)) as running:
        yield running, f"127.0.0.1:{wrong}"


@pytest.mark.kafka
def test_nothing_is_lost_when_kafka_is_killed_and_comes_back(
    mortal: tuple[Broker, str], caplog: pytest.LogCaptureFixture
) -> None:
    broker, _ = mortal
    caplog.set_level(logging.INFO, "stream_icd")
    # So that an outage of a few seconds is longer than a record may wait.
    settings = broker.settings(delivery_timeout_s=2.0, request_timeout_s=1.0, connect_timeout_s=2.0)
    create_topics(settings, [TopicSpec("sent"), TopicSpec("copied")])
    stop, n = threading.Event(), 40
    ended: list[BaseException | None] = []

    def produce() -> None:
        try:
            with WaitingPublisher(settings, Outage(), stop) as publisher:
                for number in range(n):
                    publisher.send(OutgoingRecord("sent", b"%d" % number, b"graph"))
                    time.sleep(0.2)
            ended.append(None)
        except BaseException as error:
            ended.append(error)

    assert broker.node is not None
    with Echo(settings, "sent", "copied", "outage", "exactly-once") as worker:
        producing = threading.Thread(target=produce, daemon=True)
        producing.start()
        wait_until(lambda: worker.committed >= 5)
        broker.node.kill()
        time.sleep(5)
        broker.node.start()
        producing.join(90)
        assert ended == [None]
        sent = values(broker.settings(), "sent")
        assert sorted(set(sent)) == list(range(n))
        assert list(dict.fromkeys(sent)) == list(range(n))  # the first of each in order
        wait_until(lambda: worker.committed >= len(sent))
    assert values(broker.settings(), "copied") == sent
    waits = [line for line in caplog.messages if line.startswith("waiting for the broker")]
    assert 1 <= len(waits) <= 6  # some are of the producer, some of the worker
    assert any(line.startswith("the broker answers again") for line in caplog.messages)


@pytest.mark.kafka
def test_a_broker_that_advertises_a_wrong_address_is_told_from_one_that_is_away(
    mortal: tuple[Broker, str],
) -> None:
    _, wrong = mortal
    settings = KafkaSettings(bootstrap_servers=wrong)
    says = f"a broker answers at {wrong}, but .*kafka.invalid:9092.*advertised.listeners"
    with pytest.raises(BrokerUnavailable, match=says):
        recognise(settings)
    with pytest.raises(BrokerUnavailable, match=says):
        describe_topic(settings, SNAPSHOTS)


@pytest.mark.kafka
def test_tls_against_a_plain_port_names_the_setting(mortal: tuple[Broker, str]) -> None:
    broker, _ = mortal
    servers = broker.bootstrap_servers
    with pytest.raises((BadSettings, BrokerUnavailable), match="security_protocol"):
        recognise(KafkaSettings(bootstrap_servers=servers, security_protocol="SSL"))


@pytest.mark.parametrize(
    "error", [client.IncompatibleBrokerVersion("x"), client.UnrecognizedBrokerVersion("x")]
)
def test_an_old_broker_is_told_with_the_page_that_names_the_versions(error: Exception) -> None:
    meant = translate(error, "publish")
    assert isinstance(meant, NotSupported)
    assert "the broker is too old" in str(meant)
    assert "docs/guarantees.md" in str(meant)


def test_another_program_at_the_port_is_told_from_kafka() -> None:
    """A web server answers with text, which begins with the length 1213486160."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.close()

        threading.Thread(target=answer, daemon=True).start()
        settings = KafkaSettings(
            bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}", connect_timeout_s=2.0
        )
        with pytest.raises(BrokerError, match="security_protocol"):
            recognise(settings)
