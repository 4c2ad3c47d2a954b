"""Score a model on graphs that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_icd.detection import detect
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.quality.modularity import modularity
from stream_icd.quality.nmi import nmi
from stream_icd.registry.model import Model


def validate(model: Model, graphs: Sequence[LabelledGraph], threads: int = 2) -> float:
    """Mean NMI with the known communities; mean modularity where they are not known.

    The paper keeps the epoch at which this is highest (section 5.1). K is taken from the
    labels, or estimated.
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
