"""Score a model on graphs that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_icd.detection.detect import detect
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.model import Model
from stream_icd.quality.modularity import modularity
from stream_icd.quality.nmi import nmi


def validate(model: Model, graphs: Sequence[LabelledGraph], threads: int = 2) -> float:
    """Return the mean score of a model: NMI with the known communities, else modularity.

    The paper keeps the epoch with the highest score (section 5.1). K is that of the labels; without
    labels, it is estimated.
    """
    return float(np.mean([_score(model, graph, threads) for graph in graphs]))


def _score(model: Model, graph: LabelledGraph, threads: int) -> float:
    found = detect(
        graph.adjacency,
        model,
        graph.n_communities,
        method="icd",
        seed=model.recipe.seed,
        threads=threads,
    ).communities
    if graph.labels is None:
        return modularity(graph.adjacency, found)
    return nmi(graph.labels, found)
