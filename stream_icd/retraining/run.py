"""Run rounds of retraining: once, or again and again until a signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event

import structlog

from stream_icd.errors import Action, StreamIcdError
from stream_icd.retraining.announce import Announce
from stream_icd.retraining.decision import Decision
from stream_icd.retraining.observed import Observed
from stream_icd.retraining.retrain import retrain
from stream_icd.retraining.settings import Retraining
from stream_icd.store.store import Store
from stream_icd.times import utc_now

Clock = Callable[[], datetime]


def run_once(
    registry: Store,
    settings: Retraining,
    announce: Sequence[Announce],
    *,
    asked: bool = False,
    clock: Clock = utc_now,
    observed: Observed | None = None,
) -> Decision:
    """Make one round; return its decision after announcing it.

    An empty registry gets its first champion, and then the round is made.

    Raises:
        Errors of `retrain`.
    """
    observed = observed or Observed()
    while True:
        with observed.round():
            decision = retrain(registry, settings, clock(), asked=asked, on_step=observed.on_step)
            observed.decided(decision)
            _announce(decision, announce)
        if decision.outcome != "first champion":
            return decision


def run_until(
    stop: Event,
    registry: Store,
    settings: Retraining,
    announce: Sequence[Announce],
    every_s: float,
    clock: Clock = utc_now,
    observed: Observed | None = None,
) -> None:
    """Make a round every `every_s` seconds until `stop`, and announce each new decision.

    A round that finds the same as the one before announces nothing. If registry or archive do not
    answer, this is logged, and the next round tries again.

    Raises:
        Errors of `retrain`, except those that ask to try again.
    """
    observed = observed or Observed()
    before: tuple[str, str] | None = None
    while not stop.is_set():
        try:
            with observed.round():
                decision = retrain(registry, settings, clock(), on_step=observed.on_step)
                observed.decided(decision)
                this = decision.outcome, decision.reason
                if this != before:
                    _announce(decision, announce)
                before = this
        except StreamIcdError as error:
            if error.action is not Action.RETRY:
                raise
            before = None
            structlog.get_logger().warning(
                "no round now; the champion stays", reason=f"{type(error).__name__}: {error}"
            )
        stop.wait(every_s)


def _announce(decision: Decision, announce: Sequence[Announce]) -> None:
    for announce_to_one in announce:
        announce_to_one(decision)
