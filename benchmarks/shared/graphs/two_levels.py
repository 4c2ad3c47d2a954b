"""Graphs with planted communities of planted communities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats, Ids, Labels
from stream_icd.core.symmetric import symmetric

N_NODES, SIZES, OF_LARGE = 3000, (20, 60), (4, 10)
"""Nodes, nodes of a small community, and small communities of a large one."""

MEAN_DEGREE, LEAST, MOST, EXPONENT = 20, 0.2, 5.0, 2.5
"""Of the degrees, which follow a power law; LEAST and MOST relative to the mean."""


class TwoLevels(NamedTuple):
    """A graph, and the small and the large community of each node, (n,)."""

    adjacency: csr_array
    small: Labels
    large: Labels


def generate(seed: int, out: float, near: float, n_nodes: int = N_NODES) -> TwoLevels:
    """Draw a graph by the degree-corrected planted model on two levels.

    out: share of the edges drawn between any nodes; near: in a large community, whatever the small
    ones are. The others are drawn inside small communities.
    """
    rng = np.random.default_rng(seed)
    small = np.repeat(np.arange(n_nodes), rng.integers(*SIZES, n_nodes))[:n_nodes]
    of_small = np.repeat(np.arange(n_nodes), rng.integers(*OF_LARGE, n_nodes))
    large = of_small[small]
    degrees = np.clip((1 - rng.random(n_nodes)) ** (-1 / (EXPONENT - 1)) / 3, LEAST, MOST)
    n_edges = round(n_nodes * MEAN_DEGREE / 2)
    n_out, n_near, n_inside = rng.multinomial(n_edges, [out, near, 1 - out - near])
    anywhere = np.zeros(n_nodes, np.int64)
    drawn = [
        _pairs(rng, groups, degrees, n)
        for groups, n in ((anywhere, n_out), (large, n_near), (small, n_inside))
    ]
    low, high = np.unique(np.sort(np.concatenate(drawn, axis=1), axis=0), axis=1)
    apart = low < high
    adjacency = symmetric(low[apart], high[apart], np.ones(apart.sum()), n_nodes)
    return TwoLevels(adjacency, small.astype(np.int32), large.astype(np.int32))


def _pairs(rng: np.random.Generator, groups: Ids, degrees: Floats, n: int) -> Ids:
    """Pairs of nodes of one group, by their degrees, (2, n); groups ascend."""
    ends = np.cumsum(degrees)
    starts = ends - degrees
    one = np.searchsorted(ends, rng.random(n) * ends[-1])
    first = np.searchsorted(groups, groups[one])
    last = np.searchsorted(groups, groups[one], side="right") - 1
    there = starts[first] + rng.random(n) * (ends[last] - starts[first])
    other = np.searchsorted(ends, there).clip(first, last)
    pairs: Ids = np.stack([one, other])
    return pairs
