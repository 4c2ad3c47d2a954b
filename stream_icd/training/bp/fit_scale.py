"""Learn the scale, one parameter for graphs of every kind: it sets the initial resolution.

One resolution fits one kind of graph. With a scale, description length selects for each graph
between modularity and belief propagation that starts at the resolution n / scale
(`bp.by_description`). So a scale learned from a mixture of kinds holds for other kinds as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.graphs.weights import comparable
from stream_icd.quality.description_length import description_length
from stream_icd.quality.nmi import nmi
from stream_icd.training.bp.fitted import Fit, Progress, Tried, no_progress
from stream_icd.training.bp.in_threads import in_threads

SCALES = (150.0, 200.0, 250.0, 300.0, 400.0, 600.0)
"""Candidate scales: nodes per unit of resolution."""

MIXING = 0.3
"""Initial mixing of belief propagation; each graph corrects it (docs/mixing.md)."""


def fit_scale(
    graphs: Sequence[LabelledGraph],
    seed: int = 0,
    threads: int = 2,
    progress: Progress = no_progress,
) -> Fit:
    """The scale with which `find_communities`, without K, scores best on these graphs.

    The score is NMI for a graph with labels, else the bits per edge that its communities save.
    """
    tried = [BpParameters(mixing=MIXING, scale=scale) for scale in SCALES]
    runs = [(parameters, graph) for parameters in tried for graph in graphs]
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        progress(done, len(runs))

    found = in_threads(lambda run: _score(*run, seed), runs, threads, count)
    scores = np.round(np.reshape(found, (len(tried), len(graphs))).mean(axis=1), 9)
    curve = tuple(
        Tried(parameters, score=float(score))
        for parameters, score in zip(tried, scores, strict=True)
    )
    return Fit(tried[int(scores.argmax())], "a mixture", len(graphs), curve)


def _score(parameters: BpParameters, graph: LabelledGraph, seed: int) -> float:
    found = find_communities(graph.adjacency, parameters, seed=seed)
    if graph.labels is not None:
        return nmi(graph.labels, found)
    return -description_length(comparable(graph.adjacency), found)
