"""A broker that is not there is an error of its own name, in the time that the settings say."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka import errors as client
from kafka.cluster import ClusterMetadata
from kafka.errors import NotEnoughReplicasError, UnknownBrokerIdError
from kafka.net import manager
from kafka.producer.sender import Sender

from stream_icd.commands.programs.options import BrokerOptions
from stream_icd.core.errors import (
    Action,
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    DeliveryFailed,
    NameTaken,
    NotSupported,
    TopicMissing,
)
from stream_icd.kafka.client.connections import _quiet_while_connecting, open_admin
from stream_icd.kafka.client.translate import translate
from stream_icd.kafka.client.workarounds import KafkaTCPTransport, NetworkSelector
from stream_icd.kafka.connect import connect, recognise
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.group import held, membership
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.publisher import Publisher, WaitingPublisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import SNAPSHOTS, create_topics, describe_topic
from stream_icd.kafka.waiting import Clock, Outage, insist
from tests.kafka.echo import Echo, values
from tests.testbed.brokers import Broker, free_ports, kafka_listening, or_skip, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside

CALLS: dict[str, Callable[[KafkaSettings], object]] = {
    "create_topics": create_topics,
    "recognise": recognise,
    "Publisher": Publisher,
    "open_reader": lambda settings: open_reader(settings, "t").__enter__(),
    "run_consumer": lambda settings: run_consumer(
        settings, "t", "g", Calls(lambda _: []), threading.Event()
    ),
}


@pytest.fixture(params=["nobody listens", "somebody is silent", "somebody is silent about TLS"])
def no_broker(request: pytest.FixtureRequest) -> Iterator[KafkaSettings]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if "silent" in request.param:
            taken.listen()
        yield KafkaSettings(
            bootstrap_servers=f"127.0.0.1:{taken.getsockname()[1]}",
            connect_timeout_s=0.5,
            security_protocol="SSL" if "TLS" in request.param else "PLAINTEXT",
        )


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_door_gives_up_in_time_and_leaves_no_thread(
    call: Callable[[KafkaSettings], object],
    no_broker: KafkaSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "60")
    threads = threading.active_count()
    started = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=no_broker.bootstrap_servers) as refused:
        call(no_broker)
    assert time.monotonic() - started < 25  # unsaid, it is 60, or the client's own 30
    assert refused.value.action is Action.RETRY
    assert threading.active_count() <= threads


def test_a_broker_that_is_down_does_not_matter_where_another_is_there(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager.random, "shuffle", lambda nodes: nodes.sort(reverse=True))
    with socket.socket() as taken, open_admin(embedded.settings()) as admin:
        taken.bind(("127.0.0.1", 0))
        known = admin._manager.cluster._brokers
        number = max(known) + 1  # tried first
        known[number] = type(known[max(known)])(number, *taken.getsockname(), None)
        assert admin.describe_topics([SNAPSHOTS])
        assert number in admin._manager._backoff  # it was tried


def test_a_partition_that_no_broker_leads_is_waited_for_and_named(
    embedded: Broker,
    topic_name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As while the disk that it is on has failed, or the only broker that has it is down."""
    settings, two = embedded.settings(), [TopicPartition(topic_name, number) for number in (0, 1)]
    create_topics(settings, [TopicSpec(topic_name, 2)])
    ask, lead = KafkaAdminClient.list_partition_offsets, ClusterMetadata.leader_for_partition

    def ask_leaders(admin: KafkaAdminClient, specs: dict[Any, Any]) -> object:
        if any(partition.partition for partition in specs):
            raise UnknownBrokerIdError(-1)
        return ask(admin, specs)

    def leader_of(cluster: ClusterMetadata, place: Any) -> int:
        return -1 if place.partition else lead(cluster, place)

    with closing(connect(settings).reader()) as reader, connect(settings).admin() as admin:
        reader.assign(two)
        assert reader.ends(two) == admin.ends(two) == dict.fromkeys(two, 0)
        monkeypatch.setattr(ClusterMetadata, "leader_for_partition", leader_of)
        monkeypatch.setattr(KafkaAdminClient, "list_partition_offsets", ask_leaders)
        for begins_or_ends in (reader.begins, reader.ends, admin.begins, admin.ends):
            with pytest.raises(BrokerUnavailable, match=rf"no broker leads .*{topic_name}\[1\]"):
                begins_or_ends(two)
        publisher = Publisher(settings)
        publisher.send(OutgoingRecord(topic_name, b"x", partition=1))
        says = rf"1 of 1 records, for {topic_name}, were not .*some of {topic_name}\[1\] now"
        with pytest.raises(DeliveryFailed, match=says):
            publisher.flush(0.5)
        publisher.close(0.1)
        monkeypatch.setattr(membership, "_CHECK_EVERY_S", 0.1)
        monkeypatch.setattr(held, "_GRACE_S", -settings.transaction_timeout_s)
        with Echo(settings, topic_name, topic_name, topic_name) as worker:  # without a position
            says = f"waiting for a leader: no broker leads {topic_name}[1] now"
            wait_until(lambda: says in caplog.text)
            time.sleep(0.5)
            assert not worker.ended
        assert caplog.text.count(says) == 1


def test_a_record_that_lacks_replicas_is_not_sent_again_at_once(
    embedded: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time is a request and a line in the log: there were forty a second."""
    create_topics(embedded.settings(), [TopicSpec(topic_name)])
    answers, complete = itertools.count(), Sender._complete_batch

    def refuse_twice(sender: Sender, batch: Any, answer: Any) -> None:
        if next(answers) < 2:
            answer.error_code = NotEnoughReplicasError.errno
        complete(sender, batch, answer)

    monkeypatch.setattr(Sender, "_complete_batch", refuse_twice)
    started = time.monotonic()
    with Publisher(embedded.settings()) as publisher:
        publisher.send(OutgoingRecord(topic_name, b"1"))
    assert next(answers) == 3
    assert time.monotonic() - started > 0.8


def test_a_broker_of_a_cluster_may_learn_of_a_topic_later(
    embedded: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(embedded.settings(), [TopicSpec(topic_name)])
    looks, brokers = itertools.count(), [1, 2]
    describe = KafkaAdminClient.describe_topics

    def not_yet(admin: Any, topics: list[str]) -> Any:
        return describe(admin, topics if next(looks) >= 2 else ["absent"])

    monkeypatch.setattr(KafkaAdminClient, "describe_topics", not_yet)
    monkeypatch.setattr(KafkaAdminClient, "describe_cluster", lambda _: {"brokers": brokers})
    assert describe_topic(embedded.settings(), topic_name).name == topic_name
    brokers.pop()
    looks = itertools.count()
    with pytest.raises(TopicMissing):  # nobody else could know it
        describe_topic(embedded.settings(), topic_name)


@pytest.mark.parametrize("servers", ["127.0.0.1:{port}", "nobody.invalid:{port},[::1]:{port}"])
def test_nobody_is_waited_for_where_nobody_listens(servers: str) -> None:
    (port,), started = free_ports(1), time.monotonic()
    servers = servers.format(port=port)
    with pytest.raises(BrokerUnavailable, match=f"no broker listens at {re.escape(servers)}"):
        BrokerOptions(bootstrap_servers=servers).kafka()
    assert time.monotonic() - started < 8  # at once; it was 10, and a name server may be slow
    # One that is silent, or slow to start, is left to the client.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{port},127.0.0.1:{silent.getsockname()[1]}"
        assert BrokerOptions(bootstrap_servers=servers).kafka().bootstrap_servers == servers


def test_the_clients_log_is_back_once_all_have_connected() -> None:
    log = logging.getLogger("kafka")
    log.setLevel(logging.WARNING)
    first, second = _quiet_while_connecting(), _quiet_while_connecting()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not log.isEnabledFor(logging.ERROR)
    second.__exit__(None, None, None)
    assert log.isEnabledFor(logging.WARNING)


def test_a_client_that_a_quota_throttles_fails_at_nothing(embedded: Broker) -> None:
    throttled = SimpleNamespace(throttle_time_ms=60_000)
    with open_admin(embedded.settings()) as admin:
        topics = admin.list_topics()
        for connection in admin._manager._conns.values():
            connection.broker_version_data.broker_version = (4, 2)  # which lets clients wait
            admin._manager._net.run(connection._maybe_throttle, throttled)
        assert admin.list_topics() == topics


def test_ctrl_c_while_the_clients_thread_starts_stays_ctrl_c(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends the client then fails: it joins a thread that has not started."""

    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        open_admin(embedded.settings()).__enter__()


def test_the_log_has_no_errors_that_are_none(
    embedded: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    recognise(embedded.settings())  # from the first connection on
    for name, text in (
        ("kafka.cluster", "Metadata refresh: failed %s"),
        (NetworkSelector.__module__, "Task %s is blocking the event loop"),
    ):
        logging.getLogger(name).error(text, "Cancelled")
        logging.getLogger(name).error(text.replace("is blocking", "blocks"), "TimedOut")
    assert [record.args for record in caplog.records] == [("TimedOut",)] * 2
    caplog.clear()
    # Nor has that of a client that is closed while it waits for data.
    with closing(NetworkSelector()) as net, socket.socket() as waited_for:
        transport = KafkaTCPTransport(net, waited_for)
        transport.resume_reading()
        waited_for.close()
        while not transport._read_task.is_done:
            net.poll(timeout_ms=0)
    transport = KafkaTCPTransport(None, None)
    assert transport._sock_recv()[1] is not None  # as after close: there is no socket
    assert not caplog.records
    with socket.socket() as transport._sock:
        pass  # a receive fails for a reason that the log must say
    transport._sock_recv()
    assert "Error receiving network data" in caplog.text


# While a broker is away, programs wait with growing pauses, say so seldom, and lose nothing.

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
def test_a_producer_loses_nothing_when_kafka_is_killed_and_comes_back(
    mortal: tuple[Broker, str], caplog: pytest.LogCaptureFixture
) -> None:
    broker, _ = mortal
    caplog.set_level(logging.INFO, "stream_icd")
    # So that an outage of a few seconds is longer than a record may wait.
    settings = broker.settings(delivery_timeout_s=2.0, request_timeout_s=1.0, connect_timeout_s=2.0)
    create_topics(settings, [TopicSpec("sent")])
    sent: list[int] = []

    def produce(stop: threading.Event) -> None:
        with WaitingPublisher(settings, Outage(), stop) as publisher:
            for number in range(40):
                publisher.send(OutgoingRecord("sent", b"%d" % number, b"graph"))
                sent.append(number)
                time.sleep(0.2)

    with beside(produce) as errors:
        wait_until(lambda: len(sent) >= 5)
        broker.node.kill()
        time.sleep(5)
        broker.node.start()
        wait_until(lambda: len(sent) == 40 or errors, timeout_s=90)
    assert errors == []
    came = values(broker.settings(), "sent")
    assert list(dict.fromkeys(came)) == sent  # the first of each in order
    waits = [line for line in caplog.messages if line.startswith("waiting for the broker")]
    assert 1 <= len(waits) <= 3
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
