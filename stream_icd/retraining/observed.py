"""What can be seen of rounds while they run: metrics, health and traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from stream_icd.errors import StreamIcdError
from stream_icd.metrics.rounds import RoundsHealth, RoundsMetrics
from stream_icd.retraining.decision import OUTCOMES, Decision
from stream_icd.tracing import Tracing

LOOK = "look"
"""The first step of a round: read the archive, and ask the triggers."""


def rounds_metrics(limit_s: float, clock: Callable[[], float] = time.monotonic) -> RoundsMetrics:
    """Return metrics of a retrainer none of whose steps takes longer than this."""
    return RoundsMetrics(RoundsHealth(limit_s, clock), OUTCOMES)


@dataclass(slots=True)
class Observed:
    """Observes rounds, one after the other.

    Attributes:
        tracing: makes spans; None: none.
    """

    metrics: RoundsMetrics = field(default_factory=lambda: rounds_metrics(float("inf")))
    tracing: Tracing | None = None

    @contextmanager
    def round(self) -> Iterator[None]:
        """Observe a round; it has a span, and messages that are sent in it are of its trace."""
        span = nullcontext() if self.tracing is None else self.tracing.doing("retrain")
        with span:
            self.metrics.health.begin(LOOK)
            try:
                yield
            except StreamIcdError as error:
                self.metrics.unavailable(f"{type(error).__name__}: {error}")
                raise
            finally:
                self.on_step("")

    def on_step(self, step: str) -> None:
        """Note that the next step of the round begins; it ends the one before."""
        health = self.metrics.health
        seconds = health.clock() - health.since
        self.metrics.took(health.step, seconds)
        if self.tracing is not None:
            self.tracing.took(health.step, seconds)
        health.begin(step)

    def decided(self, decision: Decision) -> None:
        """Note what the round decided."""
        self.metrics.decided(decision.outcome, decision.windows, decision.champion)
        if self.tracing is not None:
            said = {"outcome": decision.outcome, "reason": decision.reason}
            self.tracing.say({**said, "champion": decision.champion, "windows": decision.windows})
