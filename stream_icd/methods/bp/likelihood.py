"""The likelihood of a graph's edges under the planted model, (9) in docs/method.md.

Communities raise the log likelihood by Σ_c m_c log(1 + (1 − μ)/μ · 2E/vol_c), with m_c edges inside
each (independent LFR model, Prokhorenkova and Tikhonov, WWW 2019).
"""

from __future__ import annotations

from math import log

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.level_graph import ROUNDING, LevelGraph

MIXING_RANGE = (0.01, 0.99)
"""Limits of the mixing in the likelihood, which needs a value strictly inside 0..1."""

STRONG_BITS = 10.0
"""Total bits for strong evidence: odds of a thousand to one."""

_KEPT_BEYOND_CHANCE = 0.1
"""Minimum fraction of its edges beyond chance that a graph keeps. Regions of a brain that work
together keep a fifth."""


def bounded_mixing(mixing: float) -> float:
    """The mixing within `MIXING_RANGE`."""
    least, most = MIXING_RANGE
    return float(min(max(mixing, least), most))


@compiled()
def groups_of(graph: LevelGraph, labels: Labels, n_groups: int) -> tuple[Floats, Floats]:
    """The edge weight inside each group 0..n_groups-1, and its strengths, (K,).

    Nodes with a negative label are in no group.
    """
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    within, volumes = np.zeros(n_groups), np.zeros(n_groups)
    for node, label in enumerate(labels):
        if label < 0:
            continue
        inside = 0.0
        for entry in range(indptr[node], indptr[node + 1]):
            if labels[indices[entry]] == label:
                inside += graph.weights[entry]
        within[label] += inside / 2
        volumes[label] += graph.strengths[node]
    return within, volumes


def _chance_within(graph: LevelGraph, volumes: Floats) -> Floats:
    """Weight of the edges expected by chance inside groups of these volumes."""
    expected: Floats = volumes**2 / max(2 * graph.total, 1e-300)
    return expected


def modularity_of(graph: LevelGraph, labels: Labels, resolution: float = 1.0) -> float:
    """Modularity at resolution γ; labels (n,) from 0 on."""
    within, volumes = groups_of(graph, labels, int(labels.max()) + 1)
    total = max(graph.total, 1e-300)
    return float((2 * within / total - resolution * (volumes / total) ** 2).sum())


def mixing_of(adjacency: csr_array, labels: Labels) -> float:
    """μ of a partition, in 0..1; 0 for a graph without edges.

    adjacency: (n, n) symmetric, zero diagonal; labels: (n,), negative where unknown: only edges
    between nodes of known communities count.

    >>> path = csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> mixing_of(path, np.array([0, 0, 1]))
    0.5
    """
    rows, columns = np.repeat(labels, np.diff(adjacency.indptr)), labels[adjacency.indices]
    known = (rows >= 0) & (columns >= 0)
    if not known.any():
        return 0.0
    between = known & (rows != columns)
    return float(adjacency.data[between].sum() / adjacency.data[known].sum())


def mixing_beyond_chance(graph: LevelGraph, labels: Labels, n_communities: int) -> float:
    """μ of a partition by the planted model: edges inside by chance count as edges between.

    In 0..1; 1 for a graph without edges, or where chance puts all edges inside.
    """
    within, volumes = groups_of(graph, labels, n_communities)
    chance, n_edges = _chance_within(graph, volumes).sum(), graph.total / 2
    if n_edges - chance <= ROUNDING * n_edges:
        return 1.0
    return float(np.clip((n_edges - within.sum()) / (n_edges - chance), 0.0, 1.0))


def nats_saved(
    graph: LevelGraph, labels: Labels, unseen: LevelGraph | None = None
) -> tuple[float, float]:
    """Nats that communities save on edges which they have not seen, and the weight of these edges.

    docs/method.md, (10), with the mixing of these edges and labels, beyond chance. Communities that
    predict nothing save 0 nats, or a little more or less.

    labels: (n,) from 0 on, -1 for nodes without one, whose edges do not count.
    unseen: the same nodes with the edges that count; None: all of the graph.
    """
    n_labels = int(labels.max(initial=-1)) + 1
    inside, volumes, edges = _among_known(
        graph if unseen is None else unseen, graph.strengths, labels, n_labels
    )
    if not edges:
        return 0.0, 0.0
    shares = volumes / volumes.sum()
    within, chance = inside.sum(), (shares**2).sum()
    mixing = bounded_mixing((1 - within / edges) / max(1 - chance, ROUNDING))
    lifts = np.log(mixing + (1 - mixing) / np.maximum(shares, ROUNDING))
    saved = (inside * lifts).sum() + (edges - within) * np.log(mixing)
    return float(saved), edges


@compiled()
def _among_known(
    unseen: LevelGraph, strengths: Floats, labels: Labels, n_labels: int
) -> tuple[Floats, Floats, float]:
    """The edge weight inside each label, its strengths, (K,), and the weight of all edges.

    Only nodes with a label count, and edges between them.
    """
    indptr, indices = unsigned(unseen.indptr), unsigned(unseen.indices)
    inside, volumes, total = np.zeros(n_labels), np.zeros(n_labels), 0.0
    for node, label in enumerate(labels):
        if label < 0:
            continue
        own = other = 0.0
        for entry in range(indptr[node], indptr[node + 1]):
            linked, weight = labels[indices[entry]], unseen.weights[entry]
            own += weight * (linked == label)
            other += weight * (linked >= 0)
        inside[label] += own / 2
        volumes[label] += strengths[node]
        total += other / 2
    return inside, volumes, total


def broken(graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float) -> bool:
    """Whether nothing is left of a graph's communities.

    The edges inside the remembered communities are compared under two Poisson distributions: the
    mean is that of chance alone, vol_c²/4E, or chance plus a fraction of what communities have
    beyond it, (1 − μ) (vol_c/2 − vol_c²/4E). They are broken if chance is ahead by `STRONG_BITS`. A
    window of a few edges says nothing.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without a remembered community.
    mixing:     μ of the remembered communities.
    """
    within, volumes = groups_of(graph, remembered, n_remembered)
    chance = _chance_within(graph, volumes)
    beyond = (1 - mixing) * np.maximum(volumes / 2 - chance, 0)
    kept = _KEPT_BEYOND_CHANCE * beyond
    ratios = np.divide(kept, chance, out=np.zeros_like(chance), where=chance > 0)
    return float(((within * np.log1p(ratios) - kept) / log(2)).sum()) < -STRONG_BITS
