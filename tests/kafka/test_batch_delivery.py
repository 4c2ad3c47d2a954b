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
Copy = Callable[..., list[float]]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """`fail(error, n)`: the first `n` attempts to publish a batch raise `error`."""

    def make(error: Exception, times: int) -> None:
        errors = [error] * times

        def publish_late(publish: Publish, *arguments: Any) -> None:
            if errors:
                raise errors.pop()
            publish(*arguments)

        publish_by(publish_late, monkeypatch.setattr)

    return make


@pytest.fixture
def copy(broker: Broker, make_topic: MakeTopic) -> Copy:
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
@pytest.mark.parametrize(
    ("error", "times", "slept"),
    [
        (BrokerUnavailable("away"), 20, [1.0] * 20),  # however long
        (DeliveryFailed("refused"), 4, []),  # delivered at the fifth attempt
        (DeliveryFailed("refused"), 7, [1.0] * 3),  # tried again with pauses
    ],
)
def test_what_cannot_be_delivered_is_tried_again(
    copy: Copy, fail: Failing, delivery: Delivery, error: Exception, times: int, slept: list[float]
) -> None:
    fail(error, times)
    assert copy(delivery) == slept


@EACH
def test_a_broker_that_is_slow_when_a_worker_starts_is_waited_for(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, delivery: Delivery
) -> None:
    late = [BrokerUnavailable("no answer within 10000 ms")] * 2

    def opened(*arguments: Any) -> Sink:
        if late:
            raise late.pop()
        return open_sink(*arguments)

    monkeypatch.setattr("stream_icd.kafka.consumer.open_sink", opened)
    assert copy(delivery) == [1.0] * 2


@EACH
@pytest.mark.parametrize("error", [BrokerUnavailable("away"), DeliveryFailed("refused")])
def test_a_worker_gives_up_when_it_was_told_to(
    copy: Copy, fail: Failing, delivery: Delivery, error: Exception
) -> None:
    fail(error, 7)
    with pytest.raises(type(error), match=str(error)):
        copy(delivery, give_up_after_s=0.0)
