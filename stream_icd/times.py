"""Times: now, and as people write them."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_utc(text: str) -> datetime:
    """Parse an ISO 8601 day (its start) or time; without a zone it is UTC.

    >>> parse_utc("2026-01-31").isoformat()
    '2026-01-31T00:00:00+00:00'

    Raises:
        ValueError: the text is neither.
    """
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def utc_now() -> datetime:
    """Return the current time, UTC."""
    return datetime.now(UTC)
