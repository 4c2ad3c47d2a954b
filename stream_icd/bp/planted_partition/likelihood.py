"""The likelihood of a graph's edges under the planted model, (9) in docs/method.md.

Communities raise the log likelihood by Σ_c m_c log(1 + (1 − μ)/μ · 2E/vol_c), with m_c edges inside
each (independent LFR model, Prokhorenkova and Tikhonov, WWW 2019).
"""

from __future__ import annotations

from math import log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.multilevel.level_graph import ROUNDING, Labels, LevelGraph
from stream_icd.graphs.compiled import compiled

Floats = NDArray[np.float64]

MIXING_RANGE = (0.01, 0.99)
"""Limits of the mixing in the likelihood, which needs a value strictly inside 0..1."""

STRONG_BITS = 10.0
"""Total bits for strong evidence: odds of a thousand to one."""


class Groups(NamedTuple):
    """Totals of each group of nodes, all (K,): edge weight inside, strengths, nodes."""

    within: Floats
    volumes: Floats
    sizes: Floats


@compiled()
def groups_of(graph: LevelGraph, labels: Labels, n_groups: int) -> Groups:
    """The groups of these labels, 0..n_groups-1; nodes with a negative label are in no group."""
    within, volumes, sizes = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    for node, label in enumerate(labels):
        if label < 0:
            continue
        inside = 0.0
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            inside += graph.weights[entry] * (labels[graph.indices[entry]] == label)
        within[label] += inside / 2
        volumes[label] += graph.strengths[node]
        sizes[label] += 1
    return Groups(within, volumes, sizes)


def modularity_of(graph: LevelGraph, labels: Labels, resolution: float = 1.0) -> float:
    """Modularity at resolution γ; labels (n,) from 0 on."""
    groups = groups_of(graph, labels, int(labels.max()) + 1)
    total = max(graph.total, 1e-300)
    return float((2 * groups.within / total - resolution * (groups.volumes / total) ** 2).sum())


def bounded_mixing(mixing: float) -> float:
    """The mixing within `MIXING_RANGE`."""
    return float(np.clip(mixing, *MIXING_RANGE))


def mixing_of(adjacency: csr_array, labels: Labels) -> float:
    """μ of a partition, in 0..1; 0 for a graph without edges.

    adjacency: (n, n) symmetric, zero diagonal; labels: (n,), any integers.

    >>> path = csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> mixing_of(path, np.array([0, 0, 1]))
    0.5
    """
    if not adjacency.nnz:
        return 0.0
    rows = np.repeat(labels, np.diff(adjacency.indptr))
    between = rows != labels[adjacency.indices]
    return float(adjacency.data[between].sum() / adjacency.data.sum())


def mixing_beyond_chance(graph: LevelGraph, labels: Labels, n_communities: int) -> float:
    """μ of a partition by the planted model: edges inside by chance count as edges between.

    In 0..1; 1 for a graph without edges, or where chance puts all edges inside.
    """
    groups = groups_of(graph, labels, n_communities)
    chance = chance_within(graph, groups).sum()
    n_edges = graph.total / 2
    if n_edges - chance <= ROUNDING * n_edges:
        return 1.0
    return float(np.clip((n_edges - groups.within.sum()) / (n_edges - chance), 0.0, 1.0))


def chance_within(graph: LevelGraph, groups: Groups) -> Floats:
    """Weight of the edges expected by chance inside each group, (K,)."""
    expected: Floats = groups.volumes**2 / max(2 * graph.total, 1e-300)
    return expected


@compiled(error_model="numpy")
def log_likelihood_ratio(volume: float, total: float, mixing: float) -> float:
    """Log of the factor by which an edge inside a community of this volume is more likely."""
    if volume <= 0:
        return 0.0
    return log1p((1 - mixing) / mixing * total / volume)
