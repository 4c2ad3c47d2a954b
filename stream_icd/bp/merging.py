"""Communities merged where the graph is described in fewer bits without telling them apart."""

from __future__ import annotations

from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import Labels, LevelGraph, coarsen, compact
from stream_icd.graphs.compiled import compiled

Floats = NDArray[np.float64]

SHARE_AT_ONCE = 4
"""Of the communities that have a good partner, one in so many is merged before all look again."""

LEAST_GAIN = 1e-9
"""In nats; less is rounding."""

LEAST_MIXING = 1e-9
"""Rounding must not make it 0 where communities are linked."""


def merge_to_shorter_description(graph: LevelGraph, labels: Labels) -> Labels:
    """Merge linked communities while that shortens `quality.description_length`: (n,), 0..K-1.

    Greedy: the pairs that gain most are merged first. The mixing is that of the partition before
    each round, as if one merger did not change it. Time is O(E) and a few passes over the links
    between communities.

    labels: (n,), 0..K-1.
    """
    labels, k = compact(labels)
    linked = np.diff(graph.indptr) > 0
    sizes = np.bincount(labels[linked], minlength=k).astype(np.float64)
    n_edges, n_nodes = len(graph.indices) / 2, int(linked.sum())
    coarse = coarsen(graph, labels, k)
    while len(coarse.indices):
        partners, gains = _best_mergers(coarse, sizes, n_edges, n_nodes)
        into = _merged(partners, gains)
        groups, n_groups = compact(into)
        if n_groups == k:
            break
        coarse, k = coarsen(coarse, groups, n_groups), n_groups
        sizes = np.bincount(groups, sizes, k).astype(np.float64, copy=False)
        labels = groups[labels]
    return labels


def _merged(partners: Labels, gains: Floats) -> Labels:
    """Where each community goes, (K,): the best pairs first, none twice."""
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
    coarse: LevelGraph, sizes: Floats, n_edges: float, n_nodes: int
) -> tuple[Labels, Floats]:
    """For each community the linked one to merge with, -1 for none, and the nats saved, both (K,).

    coarse: the communities as nodes; sizes: their nodes with edges.
    """
    k, total = len(sizes), coarse.total
    within = coarse.strengths.copy()
    for community in range(k):
        for entry in range(coarse.indptr[community], coarse.indptr[community + 1]):
            within[community] -= coarse.weights[entry]
    mixing = min(max(1 - within.sum() / total, LEAST_MIXING), 1.0)
    n_linked = (sizes > 0).sum()
    fewer = log((n_nodes - n_linked + 1) / (n_linked - 1))  # sizes of one community less
    partners, gains = np.full(k, -1, np.int32), np.full(k, LEAST_GAIN)
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
    """Log of how many times likelier an edge inside a community of this share of 2E is."""
    return log(mixing + (1 - mixing) / volume)
