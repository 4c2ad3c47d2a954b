"""Two models on the same graphs: the mean scores, and the mean of their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Measure = Literal["AMI, %", "NMI, %", "modularity, %", "bits saved per edge"]


@dataclass(frozen=True, slots=True)
class Score:
    """Mean score over graphs, and the standard error of that mean, in the measure's unit."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Scores of a model and its control on the same graphs.

    Attributes:
        name: the detection method of both.
        measure: the measure of the scores; higher is better.
        control_name: what the control is: the shipped model `default`, or the same encoder
            untrained.
        n_graphs: number of graphs.
        trained, control: the score of each.
        gain: their difference, graph by graph.
    """

    name: str
    measure: Measure
    control_name: str
    n_graphs: int
    trained: Score
    control: Score
    gain: Score

    @property
    def is_gain(self) -> bool:
        """Whether the model is better than its control, by more than the standard error."""
        return self.gain.mean > self.gain.error


def comparison(
    name: str, measure: Measure, control_name: str, trained: ArrayLike, control: ArrayLike
) -> Comparison:
    """Compare scores, graph by graph; `trained` and `control` are (n,), n at least 1."""
    of_model, of_control = np.asarray(trained, np.float64), np.asarray(control, np.float64)
    parts = map(_score, (of_model, of_control, of_model - of_control))
    return Comparison(name, measure, control_name, len(of_model), *parts)


def _score(values: NDArray[np.float64]) -> Score:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return Score(float(np.mean(values)), float(error))
