"""The origin of a model version: what it learned from, by which code, and how it was tested."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite

from stream_icd.errors import BadSettings


@dataclass(frozen=True, slots=True)
class DataRange:
    """The windows that a model learned from.

    Attributes:
        start, end: of the first window, and of the last one.
        labelled: how many of them had ground truth; the others taught without labels.
        ends: end of the last window of each graph; empty in files of earlier versions.
    """

    graphs: tuple[str, ...]
    start: datetime
    end: datetime
    windows: int
    labelled: int = 0
    ends: dict[str, datetime] = field(default_factory=dict)

    def until(self) -> dict[str, datetime]:
        """Return the end of the last window of each graph, also for earlier files."""
        return self.ends or dict.fromkeys(self.graphs, self.end)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of two models on the same windows.

    Attributes:
        measure: what was measured, with its unit, such as "NMI, %".
        champion, challenger: mean over the windows.
        low, high: confidence interval of the mean of their paired difference, challenger minus
            champion; None if it was not computed.

    Raises `BadSettings` if a number is not finite.
    """

    measure: str
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
    """The comparison that decided whether a challenger replaces the champion.

    Attributes:
        champion, challenger: versions of the two models.
        start, end: the period of the windows, which neither model learned from.
        passed: whether the challenger won.
        reason: in one sentence.
    """

    champion: str
    challenger: str
    start: datetime
    end: datetime
    windows: int
    passed: bool
    reason: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of a version; its recipe is in the model itself.

    Attributes:
        made_by: the command or program that made or imported it, such as "models import".
        code_version: version of stream_icd that made it.
        source: name or place that it was imported from; empty if it was trained here.
        parent: the version that it was derived from, if any.
        data: what it learned from; None if unknown, as for an imported model of no registry.
        gate: its comparison with the champion at that time, if there was one.
    """

    made_by: str
    made_at: datetime
    code_version: str
    source: str = ""
    parent: str | None = None
    data: DataRange | None = None
    gate: Gate | None = None
