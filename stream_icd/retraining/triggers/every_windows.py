"""Learn every N windows."""

from __future__ import annotations

from stream_icd.retraining.triggers.due import Due


def every_windows(every: int, new: int) -> Due:
    """Due if `every` windows or more came since the last attempt.

    >>> every_windows(50, 12)
    Due(due=False, reason='12 of 50 new windows', since=None)
    """
    return Due(new >= every, f"{new} of {every} new windows")
