"""Times, durations and windows: parse them, name them, find those of files, and those missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median_low
from threading import TIMEOUT_MAX

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import EPOCH, MICROSECOND, Window

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
LONGEST = datetime.max - datetime.min
"""No two times are farther apart. The sum of some such durations fits 64 bits of microseconds."""


def parse_utc(text: str) -> datetime:
    """Parse an ISO 8601 day (its start) or time, without a zone UTC, and return it in UTC.

    Raises `ValueError` for other texts, and outside the years 1 to 9999.

    >>> parse_utc("2026-01-31").isoformat()
    '2026-01-31T00:00:00+00:00'
    """
    time = datetime.fromisoformat(text)
    try:
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(f"in UTC, {text} is outside the years 1 to 9999") from error


def utc_now() -> datetime:
    """Return the current time, UTC."""
    return datetime.now(UTC)


def time_of_option(option: str, text: str, forms: str) -> datetime:
    """Return the time that an option gives; raise `BadSettings`, which says what it takes."""
    try:
        return parse_utc(text)
    except ValueError as error:
        raise BadSettings(f"{option} {text!r}: give {forms}") from error


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `90s`, `1h30m` or `3d`; units are ms, s, m, h, d and w.

    Raises `BadSettings` for other texts, and above `LONGEST`.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadSettings(f"{text!r} is not a duration: write 90s, 1h30m or 3d (ms, s, m, h, d, w)")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > LONGEST.total_seconds():
        raise BadSettings(f"the duration {text!r:.80} is too long: the limit is {LONGEST.days}d")
    return timedelta(seconds=seconds)


def parse_wait(option: str, text: str) -> float:
    """Return the seconds of a duration to wait for; raise `BadSettings` if nothing can wait for it.

    >>> parse_wait("--every", "2m")
    120.0
    """
    seconds = parse_duration(text).total_seconds()
    if not 0 < seconds <= TIMEOUT_MAX:
        most = timedelta(seconds=TIMEOUT_MAX).days
        raise BadSettings(f"{option} {text}: give a duration above 0 and of at most {most}d")
    return seconds


def microseconds(span: timedelta) -> int:
    """Return the duration in whole microseconds, the unit of event time."""
    return span // MICROSECOND


def time_at(event_time: int) -> datetime:
    """Return the time that many microseconds after 1970, UTC."""
    return EPOCH + event_time * MICROSECOND


def window_at(start: int, end: int) -> Window:
    """Return the window between two event times; `BadSettings`: not within the years 1 to 9999."""
    try:
        return Window(time_at(start), time_at(end))
    except OverflowError as error:
        raise BadSettings(
            f"a window of {(end - start) * MICROSECOND} would begin before the year 1 or end after "
            "the year 9999: choose a shorter one, or correct the times"
        ) from error


def _iso_duration(span: timedelta) -> str:
    """Return the duration in ISO 8601, in its largest whole unit.

    >>> _iso_duration(timedelta(days=3)), _iso_duration(timedelta(minutes=90))
    ('P3D', 'PT90M')
    """
    if span.microseconds:
        return f"PT{span.total_seconds():f}S"
    seconds = span // timedelta(seconds=1)
    for unit, size in (("D", 86_400), ("H", 3600), ("M", 60)):
        if seconds and seconds % size == 0:
            return f"P{'' if unit == 'D' else 'T'}{seconds // size}{unit}"
    return f"PT{seconds}S"


def rfc3339(time: datetime) -> str:
    """Return a time that has a zone as text, in UTC.

    >>> rfc3339(datetime(2008, 2, 2, 8, tzinfo=UTC))
    '2008-02-02T08:00:00Z'
    """
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def snapshot_id(graph: str, window: Window) -> str:
    """Return the id of a window's snapshot, the same each time: the graph and an ISO 8601 interval.

    >>> start = datetime(2008, 2, 2, 8, tzinfo=UTC)
    >>> snapshot_id("taxi", Window(start, start + timedelta(hours=1)))
    'taxi/2008-02-02T08:00:00Z/PT1H'
    """
    return f"{graph}/{rfc3339(window.start)}/{_iso_duration(window.end - window.start)}"


WindowOf = Callable[[datetime], Window]
"""Returns the window that contains a time."""

_NEIGHBOURS = 6
"""How many spacings on each side determine the usual one at a point of a series."""


def windows_at(
    times: Iterable[datetime], window: WindowOf | None, alone: timedelta
) -> dict[datetime, Window]:
    """Return the window of each time, in time order: `window` of it, or by the times themselves.

    Then a window begins at each time and ends where the next one begins, but at the latest after
    the usual spacing, the median of the nearby ones. So a missing day in a daily series leaves a
    gap, and a series may change from monthly to weekly. A single time has a window of length
    `alone`.

    >>> days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3, 5)]
    >>> [window.end.day for window in windows_at(days, None, timedelta(days=1)).values()]
    [2, 3, 4, 6]
    """
    starts = sorted(set(times))
    if window is not None:
        return {start: window(start) for start in starts}
    spacings = [later - earlier for earlier, later in pairwise(starts)] or [alone]
    usual = [
        median_low(spacings[max(0, i - _NEIGHBOURS) : i + _NEIGHBOURS + 1])
        for i in range(len(spacings))
    ]
    lengths = [*map(min, spacings, usual), usual[-1]]
    return {
        start: _window_from(start, length) for start, length in zip(starts, lengths, strict=False)
    }


def _window_from(start: datetime, length: timedelta) -> Window:
    first = microseconds(start - EPOCH)
    return window_at(first, first + microseconds(length))


def parse_window(text: str) -> WindowOf:
    """Return a function to windows of a length, such as `2h` or `month`; else raise `BadSettings`.

    They begin at multiples of the length since 1970, UTC.

    >>> parse_window("month")(datetime(2026, 2, 14, tzinfo=UTC)).end.isoformat()
    '2026-03-01T00:00:00+00:00'
    """
    length = timedelta(days=31) if text == "month" else parse_duration(text)
    if length <= timedelta(0):
        raise BadSettings(f"--window {text}: a window must be longer than 0")

    def month_of(time: datetime) -> Window:
        days = _window_from(datetime(time.year, time.month, 1, tzinfo=UTC), length)
        return replace(days, end=days.end.replace(day=1))

    def window_of(time: datetime) -> Window:
        size = microseconds(length)
        start = microseconds(time - EPOCH) // size * size
        return window_at(start, start + size)

    return month_of if text == "month" else window_of


AHEAD = timedelta(days=31)
"""How far ahead of the clock a window may end: allows for windows of a month and wrong clocks."""

_MOST_MISSED = 10**9
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
    """Return how many windows as long as `later` fit between, rounded; at most `_MOST_MISSED`."""
    length = later.end - later.start
    between = later.start - earlier.end
    return min(_MOST_MISSED, max(0, round(between / length))) if length else 0


def too_far_ahead(window: Window, now: datetime, ahead: timedelta = AHEAD) -> bool:
    """Whether a window ends more than `ahead` after `now`: every later one would be late then."""
    return window.end - now > ahead
