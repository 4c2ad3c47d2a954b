"""Liveness and readiness of a worker, for Kubernetes and compose."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stream_icd.execution.processes import InHand

GRACE_S = 10.0
"""A job is ended at its time limit; it exceeds the limit by this only if ending it fails."""


@dataclass(slots=True)
class Standing:
    """State of one consumer's loop at `polled_at` on the clock."""

    polled_at: float
    generation: int | None = None
    silence_s: float = 0.0


@dataclass(slots=True)
class Health:
    """The last reported states of this process's loops, and their meaning.

    Attributes:
        max_poll_interval_s: after this time without a poll, a loop hangs, or its group has removed
            it.
        session_timeout_s: after this time without an answer, the broker is unavailable.
        in_hand: returns the jobs in progress, the longest-running first.
    """

    max_poll_interval_s: float
    session_timeout_s: float
    clock: Callable[[], float] = time.monotonic
    loops: dict[str, Standing] = field(default_factory=dict)
    in_hand: Callable[[], Sequence[InHand]] = tuple

    def expect(self, topic: str) -> None:
        """Expect a loop on this topic; it counts as alive from now on."""
        self.loops[topic] = Standing(self.clock())

    def polled(self, topic: str, generation: int | None, silence_s: float) -> None:
        """Note a poll of the loop on this topic; see `Watcher.polled`."""
        self.loops[topic] = Standing(self.clock(), generation, silence_s)

    def not_alive(self) -> list[str]:
        """Return why this process should be restarted; empty if it should not."""
        hanging = [
            f"{topic}: has not polled for {since:.0f} s, the limit is {self.max_poll_interval_s:g}"
            for topic, loop in self.loops.items()
            if (since := self.clock() - loop.polled_at) > self.max_poll_interval_s
        ]
        return hanging + [
            str(job) for job in self.in_hand() if job.seconds > job.allowed_seconds + GRACE_S
        ]

    def not_ready(self) -> list[str]:
        """Return why no results can be expected of it now; empty if they can."""
        if not self.loops:
            return ["starting: opening the model and warming up"]
        return [why for topic, loop in self.loops.items() for why in self._missing(topic, loop)]

    def in_hand_lines(self) -> list[str]:
        """Return the jobs in progress, with their durations."""
        return [str(job) for job in self.in_hand()]

    def _missing(self, topic: str, loop: Standing) -> list[str]:
        silence_s = loop.silence_s + self.clock() - loop.polled_at
        if silence_s > self.session_timeout_s:
            return [f"{topic}: the broker has not answered for {silence_s:.0f} s"]
        if loop.generation is None:
            return [f"{topic}: not a settled member of its group"]
        return []
