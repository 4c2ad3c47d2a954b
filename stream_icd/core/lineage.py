"""The origin of a model version: what it learned from, by which code, and how it was tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite

from stream_icd.core.errors import BadSettings


@dataclass(frozen=True, slots=True)
class DataRange:
    """The windows that a model learned from."""

    graphs: tuple[str, ...]
    start: datetime  # of the first window
    end: datetime  # of the last window
    windows: int
    labelled: int = 0  # how many had ground truth; the others taught without labels
    ends: dict[str, datetime] = field(default_factory=dict)  # of each graph; empty in early files

    def until(self) -> dict[str, datetime]:
        """Return the end of the last window of each graph, also for earlier files."""
        return self.ends or dict.fromkeys(self.graphs, self.end)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of two models: means over the same windows.

    `low` and `high`: confidence interval of the mean of their paired difference, challenger minus
    champion, if it was computed. Raises `BadSettings` if a number is not finite.
    """

    measure: str  # with its unit, such as "NMI, %"
    champion: float
    challenger: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        numbers = (self.champion, self.challenger, self.low, self.high)
        if not all(number is None or isfinite(number) for number in numbers):
            raise BadSettings(f"{self.measure}: {numbers} must be finite numbers")


@dataclass(frozen=True, slots=True)
class Gate:
    """The comparison of two versions, on windows from `start` to `end` that neither learned from.

    It decided whether the challenger replaces the champion.
    """

    champion: str
    challenger: str
    start: datetime
    end: datetime
    windows: int
    passed: bool  # whether the challenger won
    reason: str  # in one sentence
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of a version; its recipe is in the model itself."""

    made_by: str  # the command or program that made or imported it, such as "models import"
    made_at: datetime
    code_version: str  # of stream_icd
    source: str = ""  # name or place that it was imported from; empty if it was trained here
    parent: str | None = None  # the version that it was derived from
    data: DataRange | None = None  # None: unknown, as for an imported model of no registry
    gate: Gate | None = None  # its comparison with the champion at that time, if there was one
