"""What happened in a registry, as announcements."""

from __future__ import annotations

from dataclasses import replace
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
    reason = f"{type(error).__name__}: {error}"
    return replace(change(registry, aliases), kind="refused", reason=reason, by=by, at=at)
