"""The result of learning bp's parameters, and the score of each choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stream_icd.bp.parameters import BpParameters

Progress = Callable[[int, int], None]
"""Called with the completed and the total steps; the total never changes."""

PERCENT = 100
"""Total steps of work in several parts; see `part_of`."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One choice of the parameters, and its scores.

    Attributes:
        ami: mean AMI with the labels, at most 1; None without labels.
        hidden_edges: mean of `quality.hidden_edge_score`, bits per edge; None with labels.
        description_length: mean of `quality.description_length`, bits per edge; None with labels.
        next_window: mean bits per edge saved on each next window's edges; None if the graphs are
            no consecutive windows.
    """

    parameters: BpParameters
    ami: float | None = None
    hidden_edges: float | None = None
    description_length: float | None = None
    next_window: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """The learned parameters, and what they were learned from.

    Attributes:
        parameters: the parameters for detection.
        learned_from: "labels"; "the next window" for consecutive windows without labels; "hidden
            edges" for other graphs without labels; "each graph" if each one searches; "default" if
            nothing that was learned is better than the shipped model.
        n_graphs: number of graphs used.
        n_windows: number of consecutive windows that the stay probability was learned from; 0 if
            it was not learned.
        curve: the choices that differ from the selected one only in resolution.
        by_labels: with labels, what was compared by them, and its mean AMI; the first one that is
            as good as the best was taken.
    """

    parameters: BpParameters
    learned_from: Literal["labels", "the next window", "hidden edges", "each graph", "default"]
    n_graphs: int
    curve: tuple[Tried, ...]
    n_windows: int = 0
    by_labels: tuple[tuple[str, float], ...] = ()


def no_progress(_done: int, _total: int) -> None:
    """Do nothing; for callers that do not show progress."""


def part_of(progress: Progress, start: int, end: int) -> Progress:
    """Progress of one part of the work, from `start` to `end` percent; reported as they rise.

    >>> part_of(lambda done, total: print(f"{done}/{total}"), 50, 100)(1, 5)
    60/100
    """
    reported = start

    def report(done: int, total: int) -> None:
        nonlocal reported
        percent = start + (end - start) * done // max(total, 1)
        if percent > reported:
            reported = percent
            progress(percent, PERCENT)

    return report
