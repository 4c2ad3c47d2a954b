"""Windows that end so far in the future that their time cannot be right."""

from __future__ import annotations

from datetime import datetime, timedelta

from stream_icd.snapshot import Window

AHEAD = timedelta(days=31)
"""How far ahead of the clock a window may end: allows for windows of a month and wrong clocks."""


def too_far_ahead(window: Window, now: datetime, ahead: timedelta = AHEAD) -> bool:
    """Whether a window ends more than `ahead` after `now`.

    If such a window were accepted, every later window of its graph would be late until that time: a
    window that ends in the year 9999 would stop tracking of the graph for good.
    """
    return window.end - now > ahead
