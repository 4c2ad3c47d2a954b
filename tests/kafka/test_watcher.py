"""Whoever watches a consumer sees where it stands: in its group, behind its partitions."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from kafka import KafkaConsumer

from stream_icd.kafka import waiting
from stream_icd.kafka.delivery.handler import Watcher
from stream_icd.kafka.record import OutgoingRecord
from tests.kafka.echo import Pipe
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import publish

pytestmark = pytest.mark.brokers("memory", "embedded", "kafka")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lag counted, and the broker asked for it, more often than in production."""
    monkeypatch.setattr("stream_icd.kafka.group.membership._COUNT_EVERY_S", 0.05)
    monkeypatch.setattr("stream_icd.kafka.group.membership._ASK_AFTER_S", 0.2)


class Notes(Watcher):
    """Records its last calls."""

    def __init__(self) -> None:
        self.generations: list[int] = []
        self.lag: dict[int, int] = {}
        self.silence_s = float("inf")
        self.polls = 0

    def polled(self, generation: int | None, silence_s: float) -> None:
        self.polls += 1
        self.silence_s = silence_s
        if generation is not None and generation not in self.generations:
            self.generations.append(generation)

    def lagged(self, lag: Mapping[int, int]) -> None:
        self.lag = dict(lag)


def to_partition(pipe: Pipe, partition: int, count: int) -> None:
    publish(pipe.broker, [OutgoingRecord(pipe.source, b"", partition=partition)] * count)


def test_lag_is_what_is_not_committed_and_ends_at_zero(pipe: Pipe) -> None:
    seen: list[dict[int, int]] = []
    notes = Notes()
    notes.lagged = lambda lag: seen.append(dict(lag))  # type: ignore[method-assign]
    for partition, count in enumerate((1, 12, 0)):
        to_partition(pipe, partition, count)

    def looked_at() -> None:
        before = len(seen)
        wait_until(lambda: len(seen) > before)

    with pipe.echo(watcher=notes, meanwhile=looked_at) as echo:
        wait_until(lambda: echo.committed == 13 and seen[-1] == {0: 0, 1: 0, 2: 0})
    lags = [lag[1] for lag in seen if 1 in lag]
    assert lags == sorted(lags, reverse=True)
    assert (lags[0], lags[-1]) == (12, 0)
    assert len(set(lags)) >= 4  # batches are of four records at most
    assert all(lag.get(2, 0) == 0 for lag in seen)


def test_what_comes_while_work_is_in_hand_is_seen(broker: Broker, pipe: Pipe) -> None:
    notes, settings = Notes(), broker.steady(shutdown_timeout_s=0.5)
    to_partition(pipe, 0, 2)
    with pipe.echo(settings=settings, seconds=600, watcher=notes):
        wait_until(lambda: notes.lag.get(0) == 2)
        for _ in range(3):  # the embedded broker tells of all batches but the last
            to_partition(pipe, 0, 3)
        polls = notes.polls
        wait_until(lambda: notes.lag[0] >= 8)
        wait_until(lambda: notes.polls > polls)


def test_each_rebalance_is_a_generation(broker: Broker, pipe: Pipe) -> None:
    first, second = Notes(), Notes()
    pipe.publish(9)
    with pipe.echo(settings=broker.settings(), watcher=first) as one:
        wait_until(lambda: one.committed == 9)
        before = len(first.generations)
        assert before >= 1
        with pipe.echo(settings=broker.settings(), watcher=second):
            wait_until(lambda: first.lag.keys() | second.lag.keys() == {0, 1, 2} and second.lag)
            wait_until(lambda: len(first.generations) > before)
            wait_until(lambda: not first.lag.keys() & second.lag.keys())


class Sleeper(Notes):
    """Keeps the consumer from polling for 3 s, each time that it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def polled(self, generation: int | None, silence_s: float) -> None:
        if self.asked.is_set():
            self.asked.clear()
            time.sleep(3)
        super().polled(generation, silence_s)


def test_who_lost_its_place_in_the_group_knows_its_lag_again(broker: Broker, pipe: Pipe) -> None:
    """Of empty partitions, too: of those that did not change Kafka says nothing once more."""
    notes = Sleeper()
    to_partition(pipe, 0, 3)
    with pipe.echo(settings=broker.steady(max_poll_interval_s=1), watcher=notes):
        wait_until(lambda: notes.lag == {0: 0, 1: 0, 2: 0})
        before = len(notes.generations)
        notes.asked.set()
        wait_until(lambda: len(notes.generations) > before)
        notes.lag = {}
        wait_until(lambda: notes.lag == {0: 0, 1: 0, 2: 0})


@pytest.mark.brokers("embedded", "kafka")  # the in-memory one does nothing by itself
def test_an_idle_member_does_little_and_works_at_once_on_what_comes(
    broker: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_IDLE_AFTER_S", 0.5)
    rounds, one_round = [0], KafkaConsumer._poll_once

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        rounds[0] += 1
        return one_round(self, *arguments, **named)

    monkeypatch.setattr(KafkaConsumer, "_poll_once", counted)
    notes = Notes()
    with pipe.echo(settings=broker.settings(), watcher=notes) as echo:
        wait_until(lambda: len(notes.lag) == 3)
        time.sleep(3)  # a while without records, and the end of the last short poll
        before, rounds[0] = notes.polls, 0
        time.sleep(4)
        assert notes.polls - before <= 4  # one every two seconds; it was five a second
        assert rounds[0] <= 5  # a poll that waits does not begin anew, or only for an answer
        # The embedded broker looks for new records only two or three times while a fetch waits.
        monkeypatch.setattr(waiting, "IDLE_S", 6.0 if broker.name == "embedded" else 60.0)
        wait_until(lambda: notes.polls > before + 2)  # the next poll waits that long
        pipe.publish(3)
        wait_until(lambda: echo.committed == 3, timeout_s=20)
