"""Run rounds of retraining, with metrics, health and traces, and announce what they decide."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from math import inf
from threading import Event

import structlog

from stream_icd.core.errors import (
    Action,
    BrokerError,
    ModelError,
    StoreError,
    StoreUnreachable,
    StreamIcdError,
)
from stream_icd.core.store.store import Store
from stream_icd.core.times import utc_now
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MODELS
from stream_icd.kafka.tracing import Tracing
from stream_icd.learning.retraining.retrain import BY, OUTCOMES, Decision, retrain
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import RetrainerState
from stream_icd.registry.aliases import Aliases, champion, current, history
from stream_icd.registry.announce import announce, change, publication
from stream_icd.registry.versions import read_lineage
from stream_icd.streaming.metrics.programs import RoundsMetrics
from stream_icd.wire.announcements import Announcement

_LOOK = "look"
"""The first step of a round: read the archive, and ask the triggers."""


@dataclass(slots=True)
class Rounds:
    """Makes rounds of retraining, one after the other; shows their steps, and says what is new.

    That is logged, and passed to each function of `announce`.
    """

    registry: Store
    settings: Retraining
    announce: Sequence[Callable[[Decision], None]] = ()
    limit_s: float = inf  # for a step; a longer one is not healthy
    tracing: Tracing | None = None  # None: no spans
    clock: Callable[[], float] = time.monotonic
    metrics: RoundsMetrics = field(init=False)
    _had_champion: bool = False
    _said: tuple[str, str] | None = None  # by the last decision

    def __post_init__(self) -> None:
        self.metrics = RoundsMetrics(self.limit_s, OUTCOMES, self.clock)

    def once(self, *, asked: bool = False, clock: Callable[[], datetime] = utc_now) -> Decision:
        """Make one round (`retrain`); an empty registry gets its first champion before."""
        while True:
            decision = self._round(clock(), asked=asked)
            if decision.outcome != "first champion":
                return decision

    def until(self, stop: Event, every_s: float) -> None:
        """Make a round every `every_s` seconds until `stop`.

        If registry or archive do not answer, or a registry that had a champion has none, this is
        logged, and the next round tries again. Other errors of `retrain` are raised.
        """
        with suppress(StreamIcdError):  # the first round says it
            self._had_champion = current(self.registry) is not None
        while not stop.is_set():
            try:
                self._round(utc_now())
            except StreamIcdError as error:
                if error.action is not Action.RETRY:
                    raise
                # So that the next decision is told, also if it is the same as before.
                self._said = None
                structlog.get_logger().warning(
                    "no round now; the champion stays", reason=f"{type(error).__name__}: {error}"
                )
            stop.wait(every_s)

    def _round(self, now: datetime, *, asked: bool = False) -> Decision:
        """Make a round, and tell its decision unless that says the same as the one before.

        It has a span, and messages that are sent in it are of its trace.
        """
        with nullcontext() if self.tracing is None else self.tracing.doing("retrain"):
            self.metrics.health.begin(_LOOK)
            try:
                decision = self._decided(now, asked=asked)
                self.metrics.decided(decision.outcome, decision.windows, decision.champion)
                if self.tracing is not None:
                    names = "outcome", "reason", "champion", "windows"
                    self.tracing.say({name: getattr(decision, name) for name in names})
                decided = decision.outcome, decision.reason
                if decided != self._said:
                    _log(decision)
                    for announce_to_one in self.announce:
                        announce_to_one(decision)
                self._said = decided
                self._had_champion = self._had_champion or decision.generation > 0
            except StreamIcdError as error:
                self.metrics.unavailable(f"{type(error).__name__}: {error}")
                raise
            finally:
                self._on_step("")
        return decision

    def _decided(self, now: datetime, *, asked: bool) -> Decision:
        registry = self.registry
        try:
            if self._had_champion:
                # Raises if there is none, where `retrain` would begin a new registry.
                champion(registry)
            return retrain(registry, self.settings, now, asked=asked, on_step=self._on_step)
        except ModelError as error:
            if self._had_champion and current(registry) is None:
                raise StoreUnreachable(
                    f"{registry.place} has no champion any more, as if its disk were unmounted: "
                    "put it back, or start the retrainer again to begin a new registry there"
                ) from error
            raise

    def _on_step(self, step: str) -> None:
        """Note that the next step of the round begins; it ends the one before."""
        health = self.metrics.health
        seconds = health.clock() - health.since
        self.metrics.took(health.step, seconds)
        if self.tracing is not None:
            self.tracing.took(health.step, seconds)
        health.begin(step)


def _log(decision: Decision) -> None:
    log = structlog.get_logger()
    say = log.warning if decision.outcome in ("failed", "rolled back") else log.info
    figures = {} if decision.gate is None else {"figures": list(map(asdict, decision.gate.figures))}
    say(
        decision.outcome,
        reason=decision.reason,
        champion=decision.champion,
        challenger=decision.challenger,
        windows=decision.windows,
        until=None if decision.until is None else decision.until.isoformat(),
        labelled=decision.labelled,
        strayed=decision.strayed,
        ahead=decision.ahead,
        **figures,
    )


def announce_in_topic(
    settings: KafkaSettings, registry: Store, name: str, topic: str = MODELS
) -> Callable[[Decision], None]:
    """Return what announces decisions about a registry.

    A promotion or a rollback that was not announced, such as by a retrainer that was killed right
    after it, is announced together with the next decision. A broker that does not answer stops
    nothing, since the registry holds the truth and detectors look there. This is logged. The state
    of the retrainer of this name says what was announced.
    """

    def announce_decision(decision: Decision) -> None:
        try:
            # Read for each decision: the round has changed it.
            state = RetrainerState.read(registry, name)
            until = state.generation if state.announced is None else state.announced
            changes = history(registry, since=until)
            # Noted only afterwards: if killed in between, it is told twice, not never.
            for announcement in _announcements(registry, changes, decision):
                announce(settings, announcement, topic)
            if changes:
                replace(state, announced=changes[-1].generation).write(registry, name)
        except (BrokerError, ModelError, StoreError) as error:
            structlog.get_logger().warning(
                "decision not announced", topic=topic, reason=f"{type(error).__name__}: {error}"
            )

    return announce_decision


def _announcements(
    registry: Store, changes: Iterable[Aliases], decision: Decision
) -> Iterator[Announcement]:
    """What is new: promotions and rollbacks, then a decision that changed nothing."""
    for aliases in changes:
        if aliases.by != BY:
            continue  # the command that made it announced it
        gate = None
        with suppress(ModelError):  # it was deleted since; the change is announced all the same
            if aliases.change == "promoted":
                lineage = read_lineage(registry, aliases.champion)
                gate = lineage.gate
                yield publication(registry, aliases.champion, lineage)
        yield change(registry, aliases, gate)
    if decision.outcome in ("promoted", "first champion", "rolled back"):
        return
    prefix = "" if decision.outcome in ("kept", "not now") else f"{decision.outcome}: "
    yield Announcement(
        "kept",
        registry.place,
        f"{prefix}{decision.reason}",
        BY,
        decision.at,
        version=decision.challenger or None,
        champion=decision.champion,
        generation=decision.generation,
        gate=decision.gate,
    )
