"""The GN benchmark: equal communities, one edge probability inside and one outside.

Girvan and Newman (PNAS 2002), with the sizes of the ICD paper: 5,000 nodes in 250 communities.
"""

from __future__ import annotations

import numpy as np

from stream_icd.core.arrays import Ids
from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.planted_graph import PlantedGraph, check_n_nodes


def generate_gn(
    rng: np.random.Generator,
    n_nodes: int = 5000,
    n_communities: int = 250,
    p_in: float = 0.3,
    p_out: float | None = None,
) -> PlantedGraph:
    """Generate a planted partition with communities of equal size (within one node).

    Every pair inside a community is an edge with probability `p_in`, every other pair with
    `p_out`, by default (1 − p_in)/(K − 1) as in the paper's scripts. At the default sizes that is
    47,500 · p_in + 12,450,000 · (1 − p_in)/249 edges: 49,250 for 0.3 and 49,000 for 0.4. Time and
    memory grow with the edges, never with the pairs.

    Raises `BadSettings` for a probability outside [0, 1], more communities than nodes, or more than
    50,000,000 nodes.

    >>> generate_gn(np.random.default_rng(7), n_nodes=100, n_communities=5).n_communities
    5
    """
    if p_out is None:
        p_out = (1 - p_in) / max(n_communities - 1, 1)
    check_gn(n_nodes, n_communities, p_in=p_in, p_out=p_out)
    nodes = np.arange(n_nodes)
    communities = nodes * n_communities // n_nodes  # ascending, so communities are runs of nodes
    ends = np.searchsorted(communities, communities, side="right")
    inside = _sample_pairs(rng, nodes + 1, ends, p_in)
    outside = _sample_pairs(rng, ends, np.full(n_nodes, n_nodes), p_out)
    pairs = np.concatenate([inside, outside], axis=1)
    return PlantedGraph.shuffled(rng, pairs, communities.astype(np.int32))


def check_gn(n_nodes: int, n_communities: int, **probabilities: float) -> None:
    """Raise `BadSettings` for what `generate_gn` refuses."""
    check_n_nodes(n_nodes)
    if not 1 <= n_communities <= n_nodes:
        raise BadSettings(f"{n_communities} communities of {n_nodes} nodes: each has at least one")
    for name, probability in probabilities.items():
        if not 0 <= probability <= 1:
            raise BadSettings(f"{name} must be in 0..1, not {probability}")


def _sample_pairs(rng: np.random.Generator, starts: Ids, ends: Ids, probability: float) -> Ids:
    """Sample pairs (v, w) with starts[v] <= w < ends[v], each kept independently: (2, E).

    Draws the number of pairs, then the pairs, by their rank among all pairs.
    """
    last_rank = np.cumsum(ends - starts)  # one past the ranks of node v's pairs
    n_pairs = int(last_rank[-1])
    n_kept = rng.binomial(n_pairs, probability)
    # Not shuffled, which takes time: the graph sorts its edges.
    ranks = rng.choice(n_pairs, n_kept, replace=False, shuffle=False)
    first = np.searchsorted(last_rank, ranks, side="right")
    return np.stack([first, ends[first] - (last_rank[first] - ranks)])
