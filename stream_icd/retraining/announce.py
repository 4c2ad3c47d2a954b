"""Announce decisions in the log and in the topic of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import structlog

from stream_icd.announcement import Announcement
from stream_icd.errors import BrokerError, ModelError, StoreError
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MODELS
from stream_icd.messages.announce import announce
from stream_icd.registry.aliases import current
from stream_icd.registry.announced import change, decision_to_keep, publication
from stream_icd.registry.versions import read_lineage
from stream_icd.retraining.decision import Decision
from stream_icd.store.store import Store

BY = "retrain"

Announce = Callable[[Decision], None]
"""Announces a decision."""


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
        **figures,
    )


def announce_in_topic(settings: KafkaSettings, registry: Store, topic: str = MODELS) -> Announce:
    """Return what announces decisions about a registry.

    A broker that does not answer stops nothing, since the registry holds the truth and detectors
    look there. This is logged.
    """

    def announce_decision(decision: Decision) -> None:
        try:
            for one in announcements(registry, decision):
                announce(settings, one, topic)
        except (BrokerError, ModelError, StoreError) as error:
            structlog.get_logger().warning(
                "decision not announced", topic=topic, reason=f"{type(error).__name__}: {error}"
            )

    return announce_decision


def announcements(registry: Store, decision: Decision) -> Iterator[Announcement]:
    """Yield what to announce about a decision."""
    aliases = current(registry)
    assert aliases is not None, "a round leaves a champion"
    changed = decision.outcome in ("promoted", "first champion", "rolled back")
    if not changed:
        prefix = "" if decision.outcome in ("kept", "not now") else f"{decision.outcome}: "
        yield decision_to_keep(
            registry,
            aliases,
            f"{prefix}{decision.reason}",
            BY,
            decision.at,
            version=decision.challenger or None,
            gate=decision.gate,
        )
        return
    if decision.outcome != "rolled back":
        yield publication(registry, decision.champion, read_lineage(registry, decision.champion))
    if aliases.champion == decision.champion:  # else a later change, announced itself
        yield change(registry, aliases, decision.gate)
