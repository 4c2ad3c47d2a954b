"""While the broker is away, programs wait with growing pauses, say so seldom, and lose nothing."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from kafka import errors as client

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    NameTaken,
    NotSupported,
)
from stream_icd.kafka.client.translate import translate
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import WaitingPublisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import SNAPSHOTS, create_topics, describe_topic
from stream_icd.kafka.waiting import Clock, Outage, insist
from tests.kafka.echo import Echo, values
from tests.testbed.brokers import Broker, kafka_listening, or_skip, wait_until
from tests.testbed.streams import beside

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


def failing(*errors: Exception) -> Callable[[], str]:
    pending = list(errors)

    def work() -> str:
        if pending:
            raise pending.pop(0)
        return "there"

    return work


def test_pauses_grow_and_there_is_a_line_a_minute(
    stop: Stop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage(clock=stop.clock)
    assert insist(failing(*[AWAY] * 20), outage, stop) == "there"
    assert stop.waited[:4] == [1.0, 1.0, 1.0, 1.5]
    assert stop.waited == sorted(stop.waited)
    assert stop.waited[-1] == 15.0
    first, *more, last = caplog.messages
    assert first == "waiting for the broker: nobody listens"
    assert all(": nobody listens" in line and " s now)" in line for line in more)
    assert len(more) <= stop.now / 60
    assert last == f"the broker answers again, after {stop.now:.0f} s"
    assert outage.seconds is None


def test_it_gives_up_after_the_time_that_was_set_or_when_waiting_cannot_help(stop: Stop) -> None:
    with pytest.raises(BrokerUnavailable):
        insist(failing(*[AWAY] * 99), Outage(30.0, stop.clock), stop)
    assert 30 <= stop.now < 30 + 15.0
    stop.waited.clear()
    with pytest.raises(BrokerUnavailable):
        insist(failing(AWAY), Outage(0.0, stop.clock), stop)
    for error in (NameTaken("another"), BadSettings("wrong")):
        with pytest.raises(type(error)):
            insist(failing(error), Outage(clock=stop.clock), stop)
    stop.set()
    with pytest.raises(BrokerUnavailable):
        insist(failing(AWAY), Outage(clock=stop.clock), stop)
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


# With Apache Kafka itself, which is killed and started again, and has a listener that tells clients
# a name that nobody knows.


@pytest.fixture(scope="module")
def mortal() -> Iterator[tuple[Broker, str]]:
    """A Kafka of our own, and the address of its listener that is advertised wrongly."""
    with or_skip(kafka_listening("OUTSIDE", "PLAINTEXT", "kafka.invalid:9092")) as running:
        yield running


@pytest.mark.kafka
def test_nothing_is_lost_when_kafka_is_killed_and_comes_back(
    mortal: tuple[Broker, str], caplog: pytest.LogCaptureFixture
) -> None:
    broker, _ = mortal
    caplog.set_level(logging.INFO, "stream_icd")
    # So that an outage of a few seconds is longer than a record may wait.
    settings = broker.settings(delivery_timeout_s=2.0, request_timeout_s=1.0, connect_timeout_s=2.0)
    create_topics(settings, [TopicSpec("sent"), TopicSpec("copied")])
    n, is_sent = 40, threading.Event()

    def produce(stop: threading.Event) -> None:
        with WaitingPublisher(settings, Outage(), stop) as publisher:
            for number in range(n):
                publisher.send(OutgoingRecord("sent", b"%d" % number, b"graph"))
                time.sleep(0.2)
        is_sent.set()

    assert broker.node is not None
    with Echo(settings, "sent", "copied", "outage", "exactly-once") as worker:
        with beside(produce) as errors:
            wait_until(lambda: worker.committed >= 5)
            broker.node.kill()
            time.sleep(5)
            broker.node.start()
            wait_until(lambda: is_sent.is_set() or errors, timeout_s=90)
        assert errors == []
        sent = values(broker.settings(), "sent")
        assert sorted(set(sent)) == list(range(n))
        assert list(dict.fromkeys(sent)) == list(range(n))  # the first of each in order
        wait_until(lambda: worker.committed >= len(sent))
    assert values(broker.settings(), "copied") == sent
    waits = [line for line in caplog.messages if line.startswith("waiting for the broker")]
    assert 1 <= len(waits) <= 6  # some are of the producer, some of the worker
    assert any(line.startswith("the broker answers again") for line in caplog.messages)


@pytest.mark.kafka
def test_a_broker_that_advertises_a_wrong_address_or_speaks_no_tls_is_told_from_one_that_is_away(
    mortal: tuple[Broker, str],
) -> None:
    broker, wrong = mortal
    settings = KafkaSettings(bootstrap_servers=wrong)
    says = f"a broker answers at {wrong}, but .*kafka.invalid:9092.*advertised.listeners"
    for ask in (recognise, partial(describe_topic, topic=SNAPSHOTS)):
        with pytest.raises(BrokerUnavailable, match=says):
            ask(settings)
    tls = broker.settings(security_protocol="SSL", connect_timeout_s=3.0)
    with pytest.raises((BadSettings, BrokerUnavailable), match="security_protocol"):
        recognise(tls)


@pytest.mark.parametrize(
    "error", [client.IncompatibleBrokerVersion("x"), client.UnrecognizedBrokerVersion("x")]
)
def test_an_old_broker_is_told_with_the_page_that_names_the_versions(error: Exception) -> None:
    meant = translate(error, "publish")
    assert isinstance(meant, NotSupported)
    assert re.search(r"the broker is too old.*docs/guarantees\.md", str(meant))


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
