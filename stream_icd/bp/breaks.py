"""Breaks: remembered communities for which the current graph has no evidence.

The current number of edges inside a remembered community is compared under two Poisson
distributions. Their means are that of chance alone, vol_c²/4E, and that of a community that keeps
half of its own edges: chance plus half of (1 − μ) (vol_c/2 − vol_c²/4E).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.lift import Groups, groups_of

STAYING = 0.5
"""Minimum fraction of its edges that a remembered community is expected to keep."""

ROUNDING = 1e-9

DOUBT = 3.0
"""A community is forgotten if the evidence against it exceeds this, in nats: odds of 20 to 1."""


def living_communities(
    graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float
) -> NDArray[np.bool_]:
    """Which remembered communities continue, (n_remembered,); none after a break of the graph.

    A break: over all communities together, chance explains the edges better.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without a remembered community.
    mixing:     μ of the remembered window.
    """
    groups = groups_of(graph, remembered, n_remembered)
    chance = chance_within(graph, groups)
    alive = chance + STAYING * (1 - mixing) * np.maximum(groups.volumes / 2 - chance, 0)
    known = chance > 0
    evidence = np.zeros(n_remembered)
    evidence[known] = groups.within[known] * np.log(alive[known] / chance[known])
    evidence -= alive - chance
    if evidence.sum() < -ROUNDING * graph.total:  # a single community says nothing either way
        return np.zeros(n_remembered, np.bool_)
    living: NDArray[np.bool_] = evidence > -DOUBT
    return living


def mixing_beyond_chance(graph: LevelGraph, labels: Labels, n_communities: int) -> float:
    """μ of a partition by the planted model: edges inside by chance count as edges between.

    In 0..1; 1 for a graph without edges, or where chance puts all edges inside.
    """
    groups = groups_of(graph, labels, n_communities)
    chance = chance_within(graph, groups).sum()
    n_edges = graph.total / 2
    if n_edges - chance <= 1e-9 * n_edges:
        return 1.0
    return float(np.clip((n_edges - groups.within.sum()) / (n_edges - chance), 0.0, 1.0))


def chance_within(graph: LevelGraph, groups: Groups) -> NDArray[np.float64]:
    """Weight of the edges expected by chance inside each group, (K,)."""
    expected: NDArray[np.float64] = groups.volumes**2 / max(2 * graph.total, 1e-300)
    return expected
