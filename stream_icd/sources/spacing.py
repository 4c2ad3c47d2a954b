"""The window of a dated file: until the next file, or of a given length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median_low

from stream_icd.errors import BadSettings
from stream_icd.snapshot import Window
from stream_icd.sources.durations import EPOCH, parse_duration

WindowOf = Callable[[datetime], Window]
"""Returns the window that contains a time."""

NEIGHBOURS = 6
"""How many spacings on each side determine the usual spacing at a point of a series."""


def windows_between(starts: Sequence[datetime], alone: timedelta) -> list[Window]:
    """Return the windows of a series that begin at these distinct, ascending times.

    A window ends where the next one begins, but at the latest after the usual spacing, which is the
    median of the nearby spacings. So a missing day in a daily series leaves a gap, and a series may
    change from monthly to weekly.

    Args:
        alone: length of the window if there is only one.

    >>> days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3, 5)]
    >>> [window.end.day for window in windows_between(days, timedelta(days=1))]
    [2, 3, 4, 6]
    """
    if not starts:
        return []
    spacings = [later - earlier for earlier, later in pairwise(starts)] or [alone]
    usual = [
        median_low(spacings[max(0, i - NEIGHBOURS) : i + NEIGHBOURS + 1])
        for i in range(len(spacings))
    ]
    lengths = [*map(min, spacings, usual), usual[-1]]
    return [Window(start, start + length) for start, length in zip(starts, lengths, strict=False)]


def parse_window(text: str) -> WindowOf:
    """Return a function to windows of that length, which begin at its multiples since 1970, UTC.

    Args:
        text: a duration such as `2h` or `7d`, or `month` for calendar months.

    Raises:
        BadSettings: the text is neither.

    >>> parse_window("month")(datetime(2026, 2, 14, tzinfo=UTC)).end.isoformat()
    '2026-03-01T00:00:00+00:00'
    """
    if text == "month":
        return _month_of
    length = parse_duration(text)
    if length <= timedelta(0):
        raise BadSettings(f"--window {text}: a window must be longer than 0")

    def window_of(time: datetime) -> Window:
        start = EPOCH + (time - EPOCH) // length * length
        return Window(start, start + length)

    return window_of


def _month_of(time: datetime) -> Window:
    first = datetime(time.year, time.month, 1, tzinfo=UTC)
    after = first + timedelta(days=31)
    return Window(first, datetime(after.year, after.month, 1, tzinfo=UTC))
