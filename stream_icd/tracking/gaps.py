"""Windows that should have come between two others."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.snapshot import Window

MOST_MISSED = 10**9
"""A microsecond's window a century after the last one is no reason to count further."""


@dataclass(frozen=True, slots=True)
class Gap:
    """`missed` windows of a graph did not come between `after` and `before`."""

    graph: str
    after: Window
    before: Window
    missed: int

    def __str__(self) -> str:
        windows = "1 window is" if self.missed == 1 else f"{self.missed} windows are"
        return f"{self.graph}: {windows} missing from {self.after.end} to {self.before.start}"


def missed_windows(earlier: Window, later: Window) -> int:
    """How many windows as long as `later` fit between the two, rounded; at most `MOST_MISSED`.

    Windows that overlap hide a gap that is shorter than themselves: then the answer is 0.
    """
    length = later.end - later.start
    between = later.start - earlier.end
    return min(MOST_MISSED, max(0, round(between / length))) if length else 0
