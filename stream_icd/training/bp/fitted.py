"""What learning bp's numbers found, and how it judged what it tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stream_icd.bp.parameters import BpParameters

Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One choice of the parameters, and how it did.

    Attributes:
        nmi: mean NMI with the labels, in 0..1; None without labels.
        hidden_edges: mean of `quality.hidden_edge_score`, bits an edge; None with labels.
        description_length: mean of `quality.description_length`, bits an edge; None with labels.
        score: on a mixture: mean NMI of the graphs with labels and bits saved of those without.
    """

    parameters: BpParameters
    nmi: float | None = None
    hidden_edges: float | None = None
    description_length: float | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """The parameters that were learned, and from what.

    Attributes:
        parameters: those to detect with.
        learned_from: "labels", "hidden edges" where no graph had labels, or "a mixture" of kinds.
        n_graphs: how many graphs were of use.
        curve: the choices that differ from the one taken in their resolution or scale only.
    """

    parameters: BpParameters
    learned_from: Literal["labels", "hidden edges", "a mixture"]
    n_graphs: int
    curve: tuple[Tried, ...]


def no_progress(_done: int, _total: int) -> None:
    """For callers who do not show how far it is."""
