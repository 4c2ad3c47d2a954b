"""Which delivery a broker allows, and how often and how long a consumer tries to deliver."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from stream_icd.core.errors import BrokerUnavailable, DeliveryFailed, NotSupported
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.delivery.delivery import Delivery, Sink, open_sink, resolve
from stream_icd.kafka.port import IN_MEMORY, KAFKA, TANSU, UNKNOWN
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import topic_names
from stream_icd.kafka.waiting import Clock
from tests.kafka.echo import Pipe
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.faults.injected import Publish, publish_by

pytestmark = pytest.mark.brokers("memory")
EVERYWHERE = pytest.mark.brokers("memory", "embedded", "kafka")
EXPECTED = {"memory": IN_MEMORY, "embedded": TANSU, "kafka": KAFKA}


@EVERYWHERE
def test_each_broker_is_recognised_and_gets_no_topic(broker: Broker) -> None:
    before = topics_at(broker)
    assert recognise(broker.settings()) == EXPECTED[broker.name]
    best = "at-least-once" if broker.name == "embedded" else "exactly-once"
    assert resolve(broker.settings(), "auto", EXPECTED[broker.name]) == best
    assert topics_at(broker) == before


def topics_at(broker: Broker) -> set[str]:
    """All topics but those that Kafka makes for itself."""
    return {name for name in topic_names(broker.settings()) if not name.startswith("__")}


def test_exactly_once_is_refused_where_aborted_records_are_shown_and_a_risk_where_they_may_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = KafkaSettings()
    with pytest.raises(NotSupported, match="at-least-once, or Apache Kafka"):
        resolve(settings, "exactly-once", TANSU)
    with caplog.at_level(logging.WARNING):
        assert resolve(settings, "auto", UNKNOWN) == "at-least-once"
        assert resolve(settings, "exactly-once", UNKNOWN) == "exactly-once"
    first, second = caplog.messages
    assert first.startswith("delivery is at-least-once: the broker at")
    assert second.startswith("exactly-once only if the broker at")


def test_a_group_of_the_embedded_broker_is_joined_soon_unless_somebody_has_set_the_session() -> (
    None
):
    unset, chosen = KafkaSettings(), KafkaSettings(session_timeout_s=9)
    assert unset.joining_quickly().session_timeout_s == 2.0
    assert chosen.joining_quickly() == chosen


# No test waits for what follows.

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
def copy(narrow: Pipe) -> Copy:
    """Copy three records; how long the consumer slept, each time."""
    narrow.publish(3)

    def run(delivery: Delivery, give_up_after_s: float | None = None) -> list[float]:
        slept: list[float] = []
        clock = Clock(sleep=slept.append)
        with narrow.echo(delivery, give_up_after_s=give_up_after_s, clock=clock) as echo:
            wait_until(lambda: echo.committed == 3 or echo.ended)
        assert narrow.copied() == [0, 1, 2]
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
