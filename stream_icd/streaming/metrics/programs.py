"""Prometheus metrics and health of producers, and of programs that work in rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from stream_icd.kafka.waiting import Outage

_ROUND_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 4 * 3600)

_UNAVAILABLE = "unavailable"
"""Outcome of a round without a decision: registry or archive did not answer."""


@dataclass(frozen=True, slots=True)
class _SendingHealth:
    outage: Outage

    def not_alive(self) -> list[str]:
        return []  # it waits for the broker: a restart would not help

    def not_ready(self) -> list[str]:
        if (away_s := self.outage.seconds) is None:
            return []
        return [f"the broker has not answered for {away_s:.0f} s"]

    def in_hand_lines(self) -> list[str]:
        return []


class SendingMetrics:
    """The numbers of a producer that waits for its broker in this outage."""

    def __init__(self, outage: Outage) -> None:
        self.registry = registry = CollectorRegistry()
        self.health = health = _SendingHealth(outage)
        ready = Gauge(
            "stream_icd_ready", "1 if the broker takes what is sent; or 0.", registry=registry
        )
        ready.set_function(lambda: not health.not_ready())
        seconds = Gauge(
            "stream_icd_outage_seconds",
            "How long the broker has not answered; 0 if it answers.",
            registry=registry,
        )
        seconds.set_function(lambda: outage.seconds or 0.0)
        ProcessCollector(registry=registry)


@dataclass(slots=True)
class _RoundsHealth:
    limit_s: float
    clock: Callable[[], float]
    step: str = ""  # what it does since `since`; empty between two rounds
    since: float = field(init=False)
    trouble: str | None = None  # why the last round decided nothing; None before the first one

    def __post_init__(self) -> None:
        self.since = self.clock()

    def begin(self, step: str) -> None:
        """Note the step that begins; an empty name is the wait between rounds."""
        self.step, self.since = step, self.clock()

    def not_alive(self) -> list[str]:
        seconds = self.clock() - self.since
        if seconds <= self.limit_s:
            return []
        step = self.step or "the wait for the next round"
        return [f"{step} has taken {seconds:.0f} s, the limit is {self.limit_s:g}"]

    def not_ready(self) -> list[str]:
        if self.trouble is None:
            return ["starting: the first round has not ended"]
        return [self.trouble] if self.trouble else []

    def in_hand_lines(self) -> list[str]:
        return [f"{self.step}: {self.clock() - self.since:.0f} s"] if self.step else []


class RoundsMetrics:
    """Numbers of all rounds, and their health; a counter for each of the outcomes begins at 0."""

    def __init__(
        self,
        limit_s: float,  # no step takes longer, nor does the wait between two rounds
        outcomes: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.health = health = _RoundsHealth(limit_s, clock)
        self._now = now
        self._rounds = counter(
            "stream_icd_retrain_rounds",
            "Rounds of retraining that have ended, by what they decided.",
            ("outcome",),
        )
        self._step_seconds = histogram(
            "stream_icd_retrain_step_seconds",
            "Seconds in each step of a round.",
            ("step",),
            buckets=_ROUND_SECONDS,
        )
        self._decided_at = gauge(
            "stream_icd_retrain_decided_timestamp_seconds",
            "When the last round ended with a decision, in seconds since 1970.",
        )
        self._windows = gauge(
            "stream_icd_retrain_windows", "Archived windows that the last round looked at."
        )
        self._in_hand = gauge(
            "stream_icd_retrain_in_hand_seconds",
            "Seconds since the present step of a round began; 0 between rounds.",
        )
        self._in_hand.set_function(lambda: health.clock() - health.since if health.step else 0.0)
        self._champion = Info(
            "stream_icd_retrain_champion", "The champion after the last round.", registry=registry
        )
        ProcessCollector(registry=registry)
        for outcome in (*outcomes, _UNAVAILABLE):
            self._rounds.labels(outcome)

    def took(self, step: str, seconds: float) -> None:
        self._step_seconds.labels(step).observe(seconds)

    def decided(self, outcome: str, windows: int, champion: str) -> None:
        """Count a round that ended with a decision."""
        self._rounds.labels(outcome).inc()
        self._decided_at.set(self._now())
        self._windows.set(windows)
        self._champion.info({"version": champion})
        self.health.trouble = ""

    def unavailable(self, why: str) -> None:
        """Count a round that ended without one."""
        self._rounds.labels(_UNAVAILABLE).inc()
        self.health.trouble = why
