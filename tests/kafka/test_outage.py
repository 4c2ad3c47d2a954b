"""While the broker is away, programs wait with growing pauses, say so seldom, and lose nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import pytest

from stream_icd.core.errors import BadSettings, BrokerUnavailable, DeliveryFailed, NameTaken
from stream_icd.kafka.outage import LONGEST_PAUSE_S, Outage, insist, wait_for_broker
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Clock
from stream_icd.kafka.waiting_publisher import WaitingPublisher
from tests.kafka.echo import values
from tests.testbed.brokers import Broker

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
    assert stop.waited[-1] == LONGEST_PAUSE_S
    first, *more, last = caplog.messages
    assert first == "waiting for the broker: nobody listens"
    assert all(": nobody listens" in line and " s now)" in line for line in more)
    assert len(more) <= stop.now / 60
    assert last == f"the broker answers again, after {stop.now:.0f} s"
    assert outage.seconds is None


def test_it_gives_up_after_the_time_that_was_set(stop: Stop) -> None:
    with pytest.raises(BrokerUnavailable):
        insist(failing([AWAY] * 99), Outage(30.0, stop.clock), stop)
    assert 30 <= stop.now < 30 + LONGEST_PAUSE_S
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
    broker: Broker, make_topic: Callable[..., str], stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker goes away with the third record, and is back after two more tries."""
    topic, sends, away = make_topic(), 0, 0
    send = Publisher.send

    def lossy(publisher: Publisher, record: OutgoingRecord) -> None:
        nonlocal sends, away
        sends += 1
        if sends == 3:  # it is queued, and nobody acknowledges it
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
