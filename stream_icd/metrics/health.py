"""Liveness and readiness of a worker, for Kubernetes and compose."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stream_icd.execution.processes import InHand

GRACE_S = 10.0
"""A job is ended at its time limit; it exceeds the limit by this only if ending it fails."""


@dataclass(slots=True)
class LastPoll:
    """The last poll of the loop on one topic.

    Attributes:
        at: time of the poll on the clock, seconds; before the first poll, when the loop started.
        generation: generation of the consumer group then; None if the loop was not a settled
            member.
        silence_s: seconds since the broker had last answered, then.
    """

    at: float
    generation: int | None = None
    silence_s: float = 0.0


@dataclass(slots=True)
class Health:
    """The last poll of each loop in this process: is the process alive, and is it ready?

    Attributes:
        max_poll_interval_s: after this time without a poll, a loop hangs, or its group has removed
            it.
        session_timeout_s: after this time without an answer, the broker is unavailable.
        clock: monotonic clock in seconds.
        last_polls: by topic.
        in_hand: returns the jobs in progress, the longest-running first.
    """

    max_poll_interval_s: float
    session_timeout_s: float
    clock: Callable[[], float] = time.monotonic
    last_polls: dict[str, LastPoll] = field(default_factory=dict)
    in_hand: Callable[[], Sequence[InHand]] = tuple

    def expect(self, topic: str) -> None:
        """Expect a loop on this topic; it counts as alive from now on."""
        self.last_polls[topic] = LastPoll(self.clock())

    def polled(self, topic: str, generation: int | None, silence_s: float) -> None:
        """Note that the loop on this topic has polled; see `Watcher.polled`."""
        self.last_polls[topic] = LastPoll(self.clock(), generation, silence_s)

    def not_alive(self) -> list[str]:
        """Return why this process should be restarted; empty if it should not."""
        hanging = [
            f"{topic}: has not polled for {since:.0f} s, the limit is {self.max_poll_interval_s:g}"
            for topic, last in self.last_polls.items()
            if (since := self.clock() - last.at) > self.max_poll_interval_s
        ]
        return hanging + [
            str(job) for job in self.in_hand() if job.seconds > job.allowed_seconds + GRACE_S
        ]

    def not_ready(self) -> list[str]:
        """Return why no results can be expected of it now; empty if they can."""
        if not self.last_polls:
            return ["starting: opening the model and warming up"]
        return [
            why for topic, last in self.last_polls.items() for why in self._missing(topic, last)
        ]

    def in_hand_lines(self) -> list[str]:
        """Return the jobs in progress, with their durations."""
        return [str(job) for job in self.in_hand()]

    def _missing(self, topic: str, last: LastPoll) -> list[str]:
        silence_s = last.silence_s + self.clock() - last.at
        if silence_s > self.session_timeout_s:
            return [f"{topic}: the broker has not answered for {silence_s:.0f} s"]
        if last.generation is None:
            return [f"{topic}: not a settled member of its group"]
        return []
