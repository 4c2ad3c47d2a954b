"""Thresholds for matching communities and for reporting events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from stream_icd.core.errors import BadSettings
from stream_icd.core.times import AHEAD


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
        for name, good, rule in (
            ("match", 0 < self.match <= 1, "above 0 and at most 1"),
            ("part", 0.5 <= self.part <= 1, "at least 0.5 and at most 1"),
            ("change", self.change > 0, "above 0"),
            ("smallest", self.smallest >= 1, "at least 1"),
            ("absence", self.absence >= 0, "at least 0"),
            ("ahead", self.ahead >= timedelta(0), "at least 0"),
        ):
            if not good:
                raise BadSettings(f"{name}={getattr(self, name)}: it must be {rule}")
