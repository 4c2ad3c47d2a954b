"""Thresholds for matching communities and for reporting events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from stream_icd.errors import BadSettings
from stream_icd.snapshot import Window

AHEAD = timedelta(days=31)
"""How far ahead of the clock a window may end: allows for windows of a month and wrong clocks."""


def too_far_ahead(window: Window, now: datetime, ahead: timedelta = AHEAD) -> bool:
    """Whether a window ends more than `ahead` after `now`.

    If such a window were accepted, every later window of its graph would be late until that time: a
    window that ends in the year 9999 would stop tracking of the graph for good.
    """
    return window.end - now > ahead


@dataclass(frozen=True, slots=True)
class TrackSettings:
    """Thresholds of tracking.

    Attributes:
        match: a community keeps its identity if its Jaccard index with its former self is at
            least this (Greene et al.'s θ). Several communities this similar have merged or split.
        part: a community also takes part in a merger or split with more than this fraction of
            its members (Asur et al.'s κ), however large the other community is; 1: never.
        change: report growth or shrinkage when the size changes by at least this fraction.
        smallest: do not report mergers or splits of communities smaller than this: they are too
            small to tell an event from chance.
        absence: number of windows for which an absent identity is kept, whether windows or the
            community are missing.
        ahead: a window that ends further ahead of the clock than this is refused.
    """

    match: float = 0.3
    part: float = 0.5
    change: float = 0.1
    smallest: int = 3
    absence: int = 5
    ahead: timedelta = AHEAD

    def __post_init__(self) -> None:
        self._check("match", 0 < self.match <= 1, "above 0 and at most 1")
        self._check("part", 0.5 <= self.part <= 1, "at least 0.5 and at most 1")
        self._check("change", self.change > 0, "above 0")
        self._check("smallest", self.smallest >= 1, "at least 1")
        self._check("absence", self.absence >= 0, "at least 0")
        self._check("ahead", self.ahead >= timedelta(0), "at least 0")

    def _check(self, name: str, good: bool, rule: str) -> None:
        if not good:
            raise BadSettings(f"{name}={getattr(self, name)}: it must be {rule}")
