"""What is measured of two models on the same window."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on one window.

    Attributes:
        hidden_edges: how well its communities predict them, bits per edge
            (`quality.hidden_edges`); needs no labels, and is fair between models that find
            different numbers of communities.
        seconds: processor time of one detection.
        nmi: against the labels, 0..1; None if the window has none.
        churn: fraction of the nodes that change community since the window before; None for the
            first window of a graph.
        predicted: how well the communities of the window before, found with memory, predict the
            edges of this one that are new, bits per edge (`training.yardstick`); None if there is
            no window before, or no memory.
    """

    hidden_edges: float
    seconds: float
    nmi: float | None = None
    churn: float | None = None
    predicted: float | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """Two models on the same window.

    Attributes:
        window: its snapshot id.
        champion, challenger: what each of them reached.
    """

    window: str
    champion: Measured
    challenger: Measured
