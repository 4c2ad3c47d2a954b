"""Windows of a graph in time: those that are missing, and those from the future."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from stream_icd.snapshot import Window

AHEAD = timedelta(days=31)
"""How far ahead of the clock a window may end: allows for windows of a month and wrong clocks."""

MOST_MISSED = 10**9
"""Upper limit of the count, for tiny windows far apart (a microsecond, a century later)."""


@dataclass(frozen=True, slots=True)
class Gap:
    """`missed` windows of a graph are missing between `after` and `before`."""

    graph: str
    after: Window
    before: Window
    missed: int

    def __str__(self) -> str:
        windows = "1 window is" if self.missed == 1 else f"{self.missed} windows are"
        return f"{self.graph}: {windows} missing from {self.after.end} to {self.before.start}"


def missed_windows(earlier: Window, later: Window) -> int:
    """Return how many windows as long as `later` fit between, rounded; at most `MOST_MISSED`.

    For overlapping windows, a gap shorter than a window is not visible: the result is 0.
    """
    length = later.end - later.start
    between = later.start - earlier.end
    return min(MOST_MISSED, max(0, round(between / length))) if length else 0


def too_far_ahead(window: Window, now: datetime, ahead: timedelta = AHEAD) -> bool:
    """Whether a window ends more than `ahead` after `now`.

    If such a window were accepted, every later window of its graph would be late until that time: a
    window that ends in the year 9999 would stop tracking of the graph for good.
    """
    return window.end - now > ahead
