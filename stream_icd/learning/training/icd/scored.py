"""Score ways of detecting on graphs whose communities are known, to choose between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_icd.core.arrays import Labels
from stream_icd.learning.training.icd.fit_edges import Taught
from stream_icd.learning.training.yardstick import WARM_UP, judge
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami, of_known
from stream_icd.streaming.detection.detect import detect


@dataclass(frozen=True, slots=True)
class ScoredWay:
    """A way to detect, and its mean AMI with labels, 0..1; nodes without one do not count."""

    name: str
    alone: float  # each graph alone, as a detector finds a first window
    remembering: float | None = None  # with memory of the windows before; None: of no stream

    @property
    def mean(self) -> float:
        """First windows and those after a break count as much as all others."""
        both = self.alone if self.remembering is None else (self.alone + self.remembering) / 2
        return round(both, 6)  # rounding in a sum decides nothing


def scored(
    models: Mapping[str, Model], taught: Sequence[Taught], n_tests: int, threads: int = 1
) -> tuple[ScoredWay, ...]:
    """Score models, by name, on the last graphs, each found by the model's own method.

    The windows before these come first, so that all start with memory.
    """
    tests = taught[-n_tests:]
    means = [
        float(np.mean([alone(one, model, threads) for one in tests])) for model in models.values()
    ]
    if any(one.graph.moment is None for one in tests):
        return tuple(map(ScoredWay, models, means))
    together = _remembering(list(models.values()), taught[-n_tests - WARM_UP :])[-n_tests:]
    return tuple(map(ScoredWay, models, means, map(float, np.mean(together, axis=0))))


def alone(one: Taught, model: Model, threads: int = 1) -> float:
    """AMI, 0..1, of what a model finds in a graph by its own method, without memory."""
    moment = one.graph.moment
    k = None if moment is None else moment.n_communities
    return _agreement(one, detect(one.graph.adjacency, model, k, threads=threads).communities)


def _remembering(models: Sequence[Model], windows: Sequence[Taught]) -> list[list[float]]:
    """The score of each model in each window that has a moment."""
    windows = [one for one in windows if one.graph.moment is not None]
    graphs = [LabelledGraph(one.graph.adjacency, None, one.graph.moment) for one in windows]
    return [
        [_agreement(one, found.communities) for found in of_window]
        for one, of_window in zip(windows, judge(graphs, models), strict=True)
    ]


def _agreement(one: Taught, found: Labels) -> float:
    return ami(*of_known(one.labels, found))
