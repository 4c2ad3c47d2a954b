"""Announce decisions in the log and in the topic of models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import structlog

from stream_icd.errors import BrokerError, ModelError, StoreError
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MODELS
from stream_icd.messages.announce import announce, change, publication
from stream_icd.registry.aliases import Aliases, history
from stream_icd.registry.versions import read_lineage
from stream_icd.retraining.retrain import BY, Decision
from stream_icd.retraining.state import read_state, write_state
from stream_icd.store.store import Store
from stream_icd.wire.announcements import Announcement

Announce = Callable[[Decision], None]


def log_decision(decision: Decision) -> None:
    """Write a decision to the log: a failure or a rollback as a warning."""
    log = structlog.get_logger()
    say = log.warning if decision.outcome in ("failed", "rolled back") else log.info
    figures = {} if decision.gate is None else {"figures": list(map(str, decision.gate.figures))}
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
) -> Announce:
    """Return what announces decisions about a registry.

    A promotion or a rollback that was not announced, such as by a retrainer that was killed right
    after it, is announced together with the next decision. A broker that does not answer stops
    nothing, since the registry holds the truth and detectors look there. This is logged.

    Args:
        name: of the retrainer; its state says what was announced.
    """

    def announce_decision(decision: Decision) -> None:
        try:
            state = read_state(registry, name)
            until = state.generation if state.announced is None else state.announced
            changes = history(registry, since=until)
            for announcement in _announcements(registry, changes, decision):
                announce(settings, announcement, topic)
            if changes:
                write_state(registry, name, replace(state, announced=changes[-1].generation))
        except (BrokerError, ModelError, StoreError) as error:
            structlog.get_logger().warning(
                "decision not announced", topic=topic, reason=f"{type(error).__name__}: {error}"
            )

    return announce_decision


def _announcements(
    registry: Store, changes: Iterable[Aliases], decision: Decision
) -> Iterator[Announcement]:
    """What is new: promotions and rollbacks, then a decision that changed nothing."""
    for one in changes:
        if one.by != BY:
            continue  # the command that made it announced it
        gate = None
        if one.change == "promoted":
            lineage = read_lineage(registry, one.champion)
            gate = lineage.gate
            yield publication(registry, one.champion, lineage)
        yield change(registry, one, gate)
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
