"""What happened in a registry, as announcements."""

from __future__ import annotations

from datetime import datetime

from stream_icd.announcement import Announcement
from stream_icd.lineage import Gate, Lineage
from stream_icd.registry.aliases import Aliases
from stream_icd.store.store import Store


def publication(registry: Store, version: str, lineage: Lineage) -> Announcement:
    """Announce that a version was added."""
    source = f" from {lineage.source}" if lineage.source else ""
    return Announcement(
        "published",
        registry.place,
        f"added by {lineage.made_by}{source}",
        lineage.made_by,
        lineage.made_at,
        version=version,
        gate=lineage.gate,
    )


def change(registry: Store, aliases: Aliases, gate: Gate | None = None) -> Announcement:
    """Announce a promotion or a rollback."""
    return Announcement(
        aliases.change,
        registry.place,
        aliases.reason,
        aliases.by,
        aliases.at,
        version=aliases.champion,
        champion=aliases.champion,
        generation=aliases.generation,
        gate=gate,
    )


def refusal(
    registry: Store, aliases: Aliases, error: Exception, by: str, at: datetime
) -> Announcement:
    """Announce that a detector cannot use the champion."""
    return Announcement(
        "refused",
        registry.place,
        f"{type(error).__name__}: {error}",
        by,
        at,
        version=aliases.champion,
        champion=aliases.champion,
        generation=aliases.generation,
    )


def decision_to_keep(
    registry: Store,
    champion: str,
    generation: int,
    reason: str,
    by: str,
    at: datetime,
    *,
    version: str | None = None,
    gate: Gate | None = None,
) -> Announcement:
    """Announce that the champion stays for now.

    Args:
        champion, generation: of the aliases in force at the decision.
        version: the challenger that lost; None if nothing was learned.
    """
    return Announcement(
        "kept",
        registry.place,
        reason,
        by,
        at,
        version=version,
        champion=champion,
        generation=generation,
        gate=gate,
    )
