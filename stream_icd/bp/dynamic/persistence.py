"""Breaks: communities, or a whole graph, of which nothing is left in the current edges.

The current number of edges inside the remembered communities is compared under two Poisson
distributions. Their means are that of chance alone, vol_c²/4E, and that of communities that keep
a fraction of their own edges: chance plus that fraction of (1 − μ) (vol_c/2 − vol_c²/4E).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.bp.planted_partition.likelihood import chance_within, groups_of

A_TENTH, HALF = 0.1, 0.5
"""Minimum fraction of its edges beyond chance that a graph keeps, and that a community keeps if
nothing but the last window is known. Regions of a brain that work together keep a fifth."""

DOUBT = 3.0
"""Nats by which chance must be ahead: odds of 20 to 1. A window of a few edges says nothing."""


def has_broken(graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float) -> bool:
    """Whether chance explains the edges better than the remembered communities do.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without a remembered community.
    mixing:     μ of the remembered communities.
    """
    evidence = _evidence(graph, remembered, n_remembered, mixing, A_TENTH)
    return bool(evidence.sum() < -DOUBT)


def broken_communities(
    graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float
) -> NDArray[np.bool_]:
    """Which communities have broken, (n_remembered,); see `has_broken`."""
    broken: NDArray[np.bool_] = _evidence(graph, remembered, n_remembered, mixing, HALF) < -DOUBT
    return broken


def _evidence(
    graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float, staying: float
) -> NDArray[np.float64]:
    """Nats for each community, (n_remembered,), that it has kept so many of its edges."""
    groups = groups_of(graph, remembered, n_remembered)
    chance = chance_within(graph, groups)
    alive = chance + staying * (1 - mixing) * np.maximum(groups.volumes / 2 - chance, 0)
    known = chance > 0
    evidence: NDArray[np.float64] = chance - alive
    evidence[known] += groups.within[known] * np.log(alive[known] / chance[known])
    return evidence
