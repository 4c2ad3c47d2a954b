"""How well the communities of a window predict the edges of the next, which they have not seen."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.multilevel.level_graph import ROUNDING, Labels, LevelGraph
from stream_icd.bp.planted_partition.likelihood import bounded_mixing, groups_of


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
    n_labels = int(labels.max(initial=-1)) + 1
    labelled = np.where(labels >= 0, 0, -1).astype(np.int32)
    edges = float(groups_of(unseen, labelled, 1).within[0])
    if not edges:
        return 0.0, 0.0
    known = labels >= 0
    volumes = np.bincount(labels[known], graph.strengths[known], n_labels)
    shares, inside = volumes / volumes.sum(), groups_of(unseen, labels, n_labels).within
    within, chance = inside.sum(), (shares**2).sum()
    mixing = bounded_mixing((1 - within / edges) / max(1 - chance, ROUNDING))
    lifts = np.log(mixing + (1 - mixing) / np.maximum(shares, ROUNDING))
    saved = (inside * lifts).sum() + (edges - within) * np.log(mixing)
    return float(saved), edges
