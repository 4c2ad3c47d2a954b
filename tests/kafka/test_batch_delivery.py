"""How often and how long a consumer tries to deliver; no test waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stream_icd.core.errors import BrokerUnavailable, DeliveryFailed
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Delivery, Sink, open_sink
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.waiting import Clock
from tests.kafka.echo import MakeTopic, echoed, publish, values
from tests.testbed.brokers import Broker
from tests.testbed.faults.crash_points import Publish, publish_by
from tests.testbed.handlers import Calls

pytestmark = pytest.mark.brokers("memory")

Failing = Callable[[Exception, int], None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """`fail(error, n)`: the first `n` attempts to publish a batch raise `error`."""

    def make(error: Exception, times: int) -> None:
        left = times

        def publish_late(publish: Publish, *arguments: Any) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                raise error
            publish(*arguments)

        publish_by(publish_late, monkeypatch.setattr)

    return make


@pytest.fixture
def copy(broker: Broker, make_topic: MakeTopic) -> Callable[[Delivery], list[float]]:
    """Copy three records; how long the consumer slept, each time."""
    source, target = make_topic(), make_topic()
    publish(broker.settings(), source, 3)

    def run(delivery: Delivery, give_up_after_s: float | None = None) -> list[float]:
        stop, slept = threading.Event(), list[float]()

        def handle(records: Sequence[Record]) -> list[OutgoingRecord]:
            return echoed(records, target)

        run_consumer(
            broker.settings(),
            source,
            source,
            Calls(handle, done=lambda _: stop.set()),
            stop,
            delivery=delivery,
            give_up_after_s=give_up_after_s,
            clock=Clock(sleep=slept.append),
        )
        assert values(broker.settings(), target) == [0, 1, 2]
        return slept

    return run


EACH = pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])


@EACH
def test_a_broker_that_is_away_is_waited_for_however_long(
    copy: Callable[[Delivery], list[float]], fail: Failing, delivery: Delivery
) -> None:
    fail(BrokerUnavailable("away"), 20)
    assert copy(delivery) == [1.0] * 20


@EACH
def test_a_broker_that_is_slow_when_a_worker_starts_is_waited_for(
    copy: Callable[[Delivery], list[float]], monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    late, real = [BrokerUnavailable("no answer within 10000 ms")] * 2, open_sink

    def opened(*arguments: Any) -> Sink:
        if late:
            raise late.pop()
        return real(*arguments)

    monkeypatch.setattr("stream_icd.kafka.consumer.open_sink", opened)
    assert copy(delivery) == [1.0] * 2


@EACH
def test_what_is_refused_four_times_is_delivered_at_the_fifth(
    copy: Callable[[Delivery], list[float]], fail: Failing, delivery: Delivery
) -> None:
    fail(DeliveryFailed("refused"), 4)
    assert copy(delivery) == []


@EACH
def test_what_is_refused_more_often_is_tried_again_with_pauses(
    copy: Callable[[Delivery], list[float]], fail: Failing, delivery: Delivery
) -> None:
    fail(DeliveryFailed("refused"), 7)
    assert copy(delivery) == [1.0] * 3


@EACH
@pytest.mark.parametrize("error", [BrokerUnavailable("away"), DeliveryFailed("refused")])
def test_a_worker_gives_up_when_it_was_told_to(
    copy: Callable[..., list[float]], fail: Failing, delivery: Delivery, error: Exception
) -> None:
    fail(error, 7)
    with pytest.raises(type(error), match=str(error)):
        copy(delivery, give_up_after_s=0.0)
