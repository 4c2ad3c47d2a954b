"""The default clock of workers."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the current time, UTC."""
    return datetime.now(UTC)
