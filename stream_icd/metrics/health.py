"""Whether a worker is alive and ready, as Kubernetes and compose ask it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stream_icd.execution.processes import InHand

GRACE_S = 10.0
"""Work is ended when its time is up; only where this fails does it go on for longer than that."""


@dataclass(slots=True)
class Standing:
    """Where one consumer's loop stands, since `polled_at` on the clock."""

    polled_at: float
    generation: int | None = None
    silence_s: float = 0.0


@dataclass(slots=True)
class Health:
    """What the loops of this process told last, and what that means.

    Attributes:
        max_poll_interval_s: a loop that has not polled for so long hangs, or its group took it
            for dead.
        session_timeout_s: a broker that has not answered for so long is away.
        in_hand: the jobs that are worked on at this moment, the longest first.
    """

    max_poll_interval_s: float
    session_timeout_s: float
    clock: Callable[[], float] = time.monotonic
    loops: dict[str, Standing] = field(default_factory=dict)
    in_hand: Callable[[], Sequence[InHand]] = tuple

    def expect(self, topic: str) -> None:
        """There will be a loop on this topic; it counts as alive from now on."""
        self.loops[topic] = Standing(self.clock())

    def polled(self, topic: str, generation: int | None, silence_s: float) -> None:
        """The loop on this topic went round; see `Watcher.polled`."""
        self.loops[topic] = Standing(self.clock(), generation, silence_s)

    def not_alive(self) -> list[str]:
        """Why this process should be started again; empty where it should not."""
        hanging = [
            f"{topic}: has not polled for {since:.0f} s, the limit is {self.max_poll_interval_s:g}"
            for topic, loop in self.loops.items()
            if (since := self.clock() - loop.polled_at) > self.max_poll_interval_s
        ]
        return hanging + [
            str(job) for job in self.in_hand() if job.seconds > job.allowed_seconds + GRACE_S
        ]

    def not_ready(self) -> list[str]:
        """Why no results can be expected of it now; empty where they can."""
        if not self.loops:
            return ["starting: opening the model and warming up"]
        return [why for topic, loop in self.loops.items() for why in self._missing(topic, loop)]

    def in_hand_lines(self) -> list[str]:
        """What is worked on, and for how long."""
        return [str(job) for job in self.in_hand()]

    def _missing(self, topic: str, loop: Standing) -> list[str]:
        silence_s = loop.silence_s + self.clock() - loop.polled_at
        if silence_s > self.session_timeout_s:
            return [f"{topic}: the broker has not answered for {silence_s:.0f} s"]
        if loop.generation is None:
            return [f"{topic}: not a settled member of its group"]
        return []
