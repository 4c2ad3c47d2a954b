"""Learn once a period."""

from __future__ import annotations

from datetime import datetime, timedelta

from stream_icd.retraining.triggers.due import Due


def every_period(period: timedelta, last: datetime | None, now: datetime) -> Due:
    """Due if the last attempt is a period ago or more, or if there was none.

    A clock that went backwards makes it due later, never earlier.

    Args:
        last: when the last attempt was made; None if there was none.
    """
    if last is None:
        return Due(True, "there was no attempt yet")
    passed = now - last
    return Due(passed >= period, f"{_short(passed)} of {_short(period)} passed")


def _short(span: timedelta) -> str:
    return str(timedelta(seconds=round(span.total_seconds())))
