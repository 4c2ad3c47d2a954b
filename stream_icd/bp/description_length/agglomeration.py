"""Merge communities if this describes the graph in fewer bits."""

from __future__ import annotations

from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, coarsen, compact
from stream_icd.graphs.compiled import compiled

Floats = NDArray[np.float64]

SHARE_AT_ONCE = 4
"""Each round merges one in this many of the communities with a good partner."""

MOST_ROUNDS = 2**31
"""Default maximum of rounds: there is none, since each but the last merges something."""

LEAST_GAIN = 1e-9
"""Minimum gain in nats; smaller gains are rounding errors."""

LEAST_MIXING = 1e-9
"""Minimum mixing: rounding must not make it 0 if communities are linked."""


def agglomerate(
    graph: LevelGraph, labels: Labels, most_rounds: int = MOST_ROUNDS, *, cautious: bool = False
) -> Labels:
    """Merge linked communities while that shortens `quality.description_length`: (n,), 0..K-1.

    Greedy: the pairs with the largest gain are merged first. Each round uses the mixing of the
    partition before that round. Time is O(E) plus a few passes over the links between communities.

    The best of many pairs can gain by chance: two very small communities save bits as one if a
    single edge links them. If cautious, a pair must gain log K(K−1)/2 nats, the cost of naming it
    among all pairs.

    labels: (n,), 0..K-1.
    """
    labels, k = compact(labels)
    linked = np.diff(graph.indptr) > 0
    sizes = np.bincount(labels[linked], minlength=k).astype(np.float64)
    n_edges, n_nodes = len(graph.indices) / 2, int(linked.sum())
    coarse = coarsen(graph, labels, k)
    for _ in range(most_rounds):
        if not len(coarse.indices):
            break
        least_gain = LEAST_GAIN
        if cautious:
            n_linked = np.count_nonzero(sizes)
            least_gain += log(max(n_linked * (n_linked - 1) / 2, 1))
        partners, gains = _best_mergers(coarse, sizes, n_edges, n_nodes, least_gain)
        into = _merged(partners, gains)
        groups, n_groups = compact(into)
        if n_groups == k:
            break
        coarse, k = coarsen(coarse, groups, n_groups), n_groups
        sizes = np.bincount(groups, sizes, k).astype(np.float64, copy=False)
        labels = groups[labels]
    return labels


def _merged(partners: Labels, gains: Floats) -> Labels:
    """The new community of each one, (K,): the best pairs first, no community twice."""
    into = np.arange(len(partners), dtype=np.int32)
    gaining = np.flatnonzero(partners >= 0)
    best = gaining[np.argsort(-gains[gaining], kind="stable")]
    taken = np.zeros(len(partners), np.bool_)
    left = -(-len(gaining) // SHARE_AT_ONCE)
    for community, partner in zip(best.tolist(), partners[best].tolist(), strict=True):
        if left and not (taken[community] or taken[partner]):
            taken[community] = taken[partner] = True
            into[community] = partner
            left -= 1
    return into


@compiled()
def _best_mergers(
    coarse: LevelGraph, sizes: Floats, n_edges: float, n_nodes: int, least_gain: float
) -> tuple[Labels, Floats]:
    """The best linked partner of each community, -1 for none, and the nats saved, both (K,).

    coarse: the communities as nodes; sizes: their nodes with edges; least_gain: in nats.
    """
    k, total = len(sizes), coarse.total
    within = coarse.strengths.copy()
    for community in range(k):
        for entry in range(coarse.indptr[community], coarse.indptr[community + 1]):
            within[community] -= coarse.weights[entry]
    mixing = min(max(1 - within.sum() / total, LEAST_MIXING), 1.0)
    n_linked = (sizes > 0).sum()
    fewer = log((n_nodes - n_linked + 1) / (n_linked - 1))  # saved on the sizes' code
    partners, gains = np.full(k, -1, np.int32), np.full(k, least_gain)
    for one in range(k):
        for entry in range(coarse.indptr[one], coarse.indptr[one + 1]):
            other = coarse.indices[entry]
            rate = _log_rate((coarse.strengths[one] + coarse.strengths[other]) / total, mixing)
            edges = 2 * coarse.weights[entry] * (rate - log(mixing))
            edges += within[one] * (rate - _log_rate(coarse.strengths[one] / total, mixing))
            edges += within[other] * (rate - _log_rate(coarse.strengths[other] / total, mixing))
            nodes = lgamma(sizes[one] + sizes[other] + 1)
            nodes -= lgamma(sizes[one] + 1) + lgamma(sizes[other] + 1)
            gain = n_edges * edges / total + nodes + fewer
            if gain > gains[one]:
                partners[one], gains[one] = other, gain
    return partners, gains


@compiled()
def _log_rate(volume: float, mixing: float) -> float:
    """Log of the factor by which an edge inside a community of this share of 2E is more likely."""
    return log(mixing + (1 - mixing) / volume)
