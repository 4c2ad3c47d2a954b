"""Windows of a stream that did not come, and how beliefs fade meanwhile."""

from __future__ import annotations

from stream_icd.bp.dynamic.posterior import LONGEST_STAY
from stream_icd.snapshot import Window


def missed_windows(last: Window, window: Window) -> int:
    """Return how many windows of the length of `window` lie between `last` and `window`."""
    length = window.end - window.start
    return max(round((window.start - last.end) / length), 0) if length else 0


def kept_a_window(stay: float) -> float:
    """Return η for nodes without news of a window."""
    return min(stay, LONGEST_STAY)
