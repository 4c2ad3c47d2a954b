"""The answer of a trigger, and of several triggers together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
