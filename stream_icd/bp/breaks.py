"""Breaks: remembered communities that today's graph shows nothing of any more.

The edges that today has inside a remembered community are compared with what two Poisson
distributions expect there: chance alone, which is vol_c²/4E, and a community that keeps half of its
own, which is that and half of (1 − μ) (vol_c/2 − vol_c²/4E) more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.lift import Groups, groups_of

STAYING = 0.5
"""The part of its edges that a remembered community is expected to keep at least."""

ROUNDING = 1e-9

DOUBT = 3.0
"""Nats against a single community, above which it is forgotten: odds of 20 to 1."""


def living_communities(
    graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float
) -> NDArray[np.bool_]:
    """Which remembered communities live on, (n_remembered,); none where the graph has broken.

    The graph has broken with its past if all communities together are likelier by chance.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes of which nothing is remembered.
    mixing:     μ of the window that is remembered.
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
    """μ of a partition by the planted model: edges that chance puts inside count as between.

    In 0..1; 1 for a graph without edges, or where chance puts all inside.
    """
    groups = groups_of(graph, labels, n_communities)
    chance = chance_within(graph, groups).sum()
    n_edges = graph.total / 2
    if n_edges - chance <= 1e-9 * n_edges:
        return 1.0
    return float(np.clip((n_edges - groups.within.sum()) / (n_edges - chance), 0.0, 1.0))


def chance_within(graph: LevelGraph, groups: Groups) -> NDArray[np.float64]:
    """Weight of the edges that chance puts inside each group, (K,)."""
    expected: NDArray[np.float64] = groups.volumes**2 / max(2 * graph.total, 1e-300)
    return expected
