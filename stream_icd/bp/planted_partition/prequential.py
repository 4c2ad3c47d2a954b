"""How well the communities of a window predict the edges of the next, which they have not seen."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.multilevel.level_graph import ROUNDING, Labels, LevelGraph
from stream_icd.bp.planted_partition.likelihood import Floats, bounded_mixing
from stream_icd.graphs.compiled import compiled


def nats_saved(
    graph: LevelGraph, labels: Labels, unseen: LevelGraph | None = None
) -> tuple[float, float]:
    """Nats that communities save on the edges of a graph, and the weight of these edges.

    Each edge between labelled nodes counts log(μ + [same community] (1 − μ) 2E / vol_c): how much
    more likely it is under the planted model than without communities (`quality.hidden_edges`).
    The mixing is that of these edges and labels, beyond chance. Communities that predict nothing
    save 0 nats, or a little more or less.

    labels: (n,) from 0 on, -1 for nodes without one, whose edges do not count.
    unseen: the same nodes with the edges that count; None: all edges of `graph`.
    """
    unseen = graph if unseen is None else unseen
    inside, volumes, edges = _among_labelled(unseen, graph.strengths, labels)
    if not edges:
        return 0.0, 0.0
    shares = volumes / volumes.sum()
    within, chance = inside.sum(), (shares**2).sum()
    mixing = bounded_mixing((1 - within / edges) / max(1 - chance, ROUNDING))
    lifts = np.log(mixing + (1 - mixing) / np.maximum(shares, ROUNDING))
    saved = (inside * lifts).sum() + (edges - within) * np.log(mixing)
    return float(saved), edges


@compiled()
def _among_labelled(
    graph: LevelGraph, strengths: Floats, labels: Labels
) -> tuple[Floats, Floats, float]:
    """The weight of edges inside each label and the strengths of its nodes, (K,); and that of all
    edges between labelled nodes."""
    n_labels = labels.max() + 1 if len(labels) else 0
    inside, volumes, twice = np.zeros(n_labels), np.zeros(n_labels), 0.0
    for node, label in enumerate(labels):
        if label < 0:
            continue
        volumes[label] += strengths[node]
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            other = labels[graph.indices[entry]]
            if other >= 0:
                twice += graph.weights[entry]
                inside[label] += graph.weights[entry] / 2 * (other == label)
    return inside, volumes, twice / 2
