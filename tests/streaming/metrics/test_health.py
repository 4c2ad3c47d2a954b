"""When a worker counts as alive, and when as ready."""

from __future__ import annotations

import pytest

from stream_icd.core.errors import BrokerUnavailable
from stream_icd.kafka.waiting import Clock as OutageClock
from stream_icd.kafka.waiting import Outage
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.metrics.metrics import Health
from stream_icd.streaming.metrics.sending import SendingMetrics


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(max_poll_interval_s=300, session_timeout_s=10, clock=clock)


def test_while_the_model_is_opened_it_is_alive_and_not_ready(health: Health) -> None:
    assert health.not_alive() == []
    assert health.not_ready() == ["starting: opening the model and warming up"]


def test_a_member_whose_broker_answers_is_ready(health: Health) -> None:
    health.polled("t")
    assert health.not_ready() == ["t: not a settled member of its group"]
    health.polled("t", generation=7, silence_s=0.4)
    assert (health.not_alive(), health.not_ready()) == ([], [])


def test_a_loop_that_hangs_is_not_alive(health: Health, clock: Clock) -> None:
    health.polled("t")
    health.polled("t", generation=7, silence_s=0.4)
    clock.now += 299
    assert health.not_alive() == []
    clock.now += 2
    assert health.not_alive() == ["t: has not polled for 301 s, the limit is 300"]


def test_a_loop_that_never_began_is_not_alive_in_the_end(health: Health, clock: Clock) -> None:
    health.polled("t")
    clock.now += 301
    assert health.not_alive()


def test_a_broker_that_is_silent_makes_it_not_ready_but_not_dead(
    health: Health, clock: Clock
) -> None:
    health.polled("t")
    health.polled("t", generation=7, silence_s=9)
    assert health.not_ready() == []
    clock.now += 2  # a loop that does not tell any more counts as silence, too
    assert health.not_ready() == ["t: the broker has not answered for 11 s"]
    assert health.not_alive() == []


def test_who_was_thrown_out_of_the_group_is_not_ready(health: Health) -> None:
    health.polled("t")
    health.polled("t", generation=7, silence_s=0)
    health.polled("t", generation=None, silence_s=0)
    assert health.not_ready() == ["t: not a settled member of its group"]


def test_all_loops_of_a_process_count(health: Health) -> None:
    health.polled("good")
    health.polled("bad")
    health.polled("good", generation=1, silence_s=0)
    assert health.not_ready() == ["bad: not a settled member of its group"]


def test_what_is_in_hand_for_longer_than_allowed_makes_it_not_alive(health: Health) -> None:
    health.polled("t")
    health.in_hand = lambda: [InHand("graph a, snapshot a/7", 41.2, 30.0), InHand("b", 2.0, 30.0)]
    assert health.not_alive() == ["in hand for 41 s, at most 30 s: graph a, snapshot a/7"]
    health.in_hand = lambda: [InHand("graph a, snapshot a/7", 29.0, 30.0)]
    assert health.not_alive() == []


def test_a_worker_that_starts_without_a_broker_is_alive_and_says_what_it_waits_for(
    health: Health,
) -> None:
    health.start.failed(BrokerUnavailable("away"))
    assert health.not_alive() == []
    assert health.not_ready() == ["starting: the broker has not answered for 0 s"]
    health.start.answered()
    assert health.not_ready() == ["starting: opening the model and warming up"]


def test_a_producer_is_ready_while_its_broker_answers(clock: Clock) -> None:
    outage = Outage(clock=OutageClock(now=clock))
    metrics = SendingMetrics(outage)

    def served(name: str) -> float | None:
        return metrics.registry.get_sample_value(name)

    assert not metrics.health.not_ready()
    outage.failed(BrokerUnavailable("away"))
    clock.now += 20
    assert metrics.health.not_ready() == ["the broker has not answered for 20 s"]
    assert (served("stream_icd_ready"), served("stream_icd_outage_seconds")) == (0, 20)
    outage.answered()
    assert not metrics.health.not_ready()
    assert (served("stream_icd_ready"), served("stream_icd_outage_seconds")) == (1, 0)
