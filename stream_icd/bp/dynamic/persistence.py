"""Breaks: communities, or a whole graph, of which nothing is left in the current edges.

The current number of edges inside the remembered communities is compared under two Poisson
distributions. Their means are that of chance alone, vol_c²/4E, and that of communities that keep
a fraction of their own edges: chance plus that fraction of (1 − μ) (vol_c/2 − vol_c²/4E).
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.bp.planted_partition.likelihood import (
    STRONG_BITS,
    Floats,
    chance_within,
    groups_of,
)

A_TENTH, HALF = 0.1, 0.5
"""Minimum fraction of its edges beyond chance that a graph keeps, and that a community keeps if
nothing but the last window is known. Regions of a brain that work together keep a fifth."""


def broken(
    graph: LevelGraph, remembered: Labels, n_remembered: int, mixing: float
) -> tuple[bool, NDArray[np.bool_]]:
    """Whether the graph has broken, and which communities have, (n_remembered,).

    Then chance is ahead by `STRONG_BITS`. A window of a few edges says nothing.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without a remembered community.
    mixing:     μ of the remembered communities.
    """
    groups = groups_of(graph, remembered, n_remembered)
    chance = chance_within(graph, groups)
    beyond = (1 - mixing) * np.maximum(groups.volumes / 2 - chance, 0)
    known = chance > 0

    def bits_for(kept: float) -> Floats:
        ratios = np.divide(kept * beyond, chance, out=np.zeros_like(chance), where=known)
        bits: Floats = (groups.within * np.log1p(ratios) - kept * beyond) / log(2)
        return bits

    return bool(bits_for(A_TENTH).sum() < -STRONG_BITS), bits_for(HALF) < -STRONG_BITS
