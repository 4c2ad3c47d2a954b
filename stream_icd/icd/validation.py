"""How well a model does on graphs it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_icd.icd.detection import detect
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.model import Model


def validate(model: Model, graphs: Sequence[LabelledGraph], threads: int = 2) -> float:
    """Mean NMI with the known communities; mean modularity where they are not known.

    The paper keeps the epoch at which this is highest (section 5.1). K is taken from the
    labels, or estimated.
    """
    return float(np.mean([_score(model, graph, threads) for graph in graphs]))


def _score(model: Model, graph: LabelledGraph, threads: int) -> float:
    found = detect(
        graph.adjacency, model, graph.n_communities, seed=model.recipe.seed, threads=threads
    ).communities
    if graph.labels is None:
        return _modularity(graph, found)
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(graph.labels, found))


def _modularity(graph: LabelledGraph, found: NDArray[np.int32]) -> float:
    a, d = graph.adjacency, graph.adjacency.sum(axis=1)
    row = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    inside = a.data[found[row] == found[a.indices]].sum()
    vol = np.bincount(found, d)
    return float(inside / d.sum() - ((vol / d.sum()) ** 2).sum())
