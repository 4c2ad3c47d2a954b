"""The clock of workers, unless another is given."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time, UTC."""
    return datetime.now(UTC)
