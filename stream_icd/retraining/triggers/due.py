"""Triggers by number, time and command; the answer of one, and of several together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a trigger asks for a new model.

    Attributes:
        due: whether it is time to learn.
        reason: why, or why not yet, in a few words.
        since: number of the newest windows that follow the change of the stream's law, the change
            included; None if the trigger knows of no change.
    """

    due: bool
    reason: str
    since: int | None = None


def any_due(answers: Sequence[Due]) -> Due:
    """Combine triggers: it is time to learn if one of them says so.

    The reason is that of the triggers that are due, else those of all. `since` is that of the
    latest change.

    >>> any_due([Due(False, "3 of 50 new windows"), Due(True, "asked by command")])
    Due(due=True, reason='asked by command', since=None)
    """
    decisive = [one for one in answers if one.due] or list(answers)
    changes = [one.since for one in decisive if one.since is not None]
    return Due(
        any(one.due for one in answers),
        "; ".join(one.reason for one in decisive) or "no trigger is set",
        min(changes, default=None),
    )


def by_command(*, asked: bool) -> Due:
    """Due if it was asked for."""
    return Due(asked, "asked by command" if asked else "not asked by command")


def every_windows(every: int, new: int) -> Due:
    """Due if `every` windows or more came since the last attempt.

    >>> every_windows(50, 12)
    Due(due=False, reason='12 of 50 new windows', since=None)
    """
    return Due(new >= every, f"{new} of {every} new windows")


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
