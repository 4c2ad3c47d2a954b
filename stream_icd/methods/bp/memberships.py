"""How probable it is that each node belongs to its community, and which other one is next.

The probabilities are those of the planted model of `belief_propagation`: its marginals, or if
modularity found the communities, those of each node given the communities of all other nodes.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Floats, Labels, Shares
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.level_graph import LevelGraph, finest_level, links
from stream_icd.methods.bp.likelihood import bounded_mixing
from stream_icd.methods.bp.partition import majority
from stream_icd.methods.bp.prior import N_KEPT, Prior


class Memberships(NamedTuple):
    """How probable the community of each node is, and its most probable other one, all `(n,)`."""

    probabilities: Shares
    seconds: Labels  # the most probable other community, `NOBODY` if there is none
    second_probabilities: Shares  # 0 if there is none


def believed_memberships(beliefs: Prior, labels: Labels) -> Memberships:
    """The memberships that beliefs say, of communities that have other numbers since, or are one.

    A community of the beliefs is that of most of the nodes which it is most probable for. The most
    probable community of a node is its own, which may be a piece of it.

    labels: (n,), 0..K-1.
    """
    likeliest = beliefs.communities[:, 0].copy()
    into = majority(likeliest, labels, int(beliefs.communities.max(initial=NOBODY)) + 1)
    return _renamed(beliefs.communities, beliefs.shares, labels, into)


@compiled()
def _renamed(communities: Labels, shares: Shares, labels: Labels, into: Labels) -> Memberships:
    n_nodes, n_kept = communities.shape
    own, second = np.zeros(n_nodes, np.float32), np.zeros(n_nodes, np.float32)
    seconds = np.full(n_nodes, NOBODY, np.int32)
    other_names, sums = np.empty(n_kept, np.int32), np.empty(n_kept, np.float32)
    for node in range(n_nodes):
        own[node], n_others = shares[node, 0], 0
        for place in range(1, n_kept):
            if communities[node, place] < 0:
                break
            name = into[communities[node, place]]
            if name == labels[node]:
                own[node] += shares[node, place]
            elif name >= 0:
                at = 0
                while at < n_others and other_names[at] != name:
                    at += 1
                if at == n_others:
                    other_names[at], sums[at] = name, np.float32(0.0)
                    n_others += 1
                sums[at] += shares[node, place]
        own[node] = min(own[node], np.float32(1.0))  # sums are rounded
        for at in range(n_others):
            if sums[at] > second[node]:
                seconds[node], second[node] = other_names[at], sums[at]
    return Memberships(own, seconds, second)


def memberships_given_others(graph: LevelGraph, labels: Labels) -> Memberships:
    """The memberships of each node, given the communities of all other nodes; O(N + E).

    An edge to community c says log(1 + (1 − μ)/μ · 2E / vol_c) for it, and without edges its
    probability is its share of the other nodes. Only communities that the node has edges to, and
    its own, are compared one by one; the node may be in any other one.

    graph: the level of single nodes, with comparable weights. labels: (n,), 0..K-1.
    """
    k = int(labels.max(initial=NOBODY)) + 1
    volumes = np.bincount(labels, graph.strengths, k)
    between = float(links(graph, labels, False).sum())
    # A graph without edges divides by the least number, not by 0.
    mixing = bounded_mixing(between / max(graph.total, 1e-300))
    excess = (1 - mixing) / mixing * graph.total / np.maximum(volumes, 1e-300)
    sizes = np.bincount(labels, minlength=k).astype(np.float64)
    return _given_others(graph, labels, np.log1p(excess), sizes)


@compiled(error_model="numpy")
def _given_others(
    graph: LevelGraph, labels: Labels, log_odds: Floats, sizes: Floats
) -> Memberships:
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    n_nodes, k = len(labels), len(sizes)
    own, second = np.zeros(n_nodes, np.float32), np.zeros(n_nodes, np.float32)
    seconds = np.full(n_nodes, NOBODY, np.int32)
    weights, touched = np.zeros(k), np.empty(k, np.int32)
    for node in range(n_nodes):
        mine = labels[node]
        touched[0], n_touched, most = mine, 1, 0.0
        for entry in range(indptr[node], indptr[node + 1]):
            name = labels[indices[entry]]
            if weights[name] == 0 and name != mine:
                touched[n_touched] = name
                n_touched += 1
            weights[name] += graph.weights[entry]
        for at in range(n_touched):
            # The largest exponent is taken off all of them, so that none overflows.
            most = max(most, weights[touched[at]] * log_odds[touched[at]])
        # Without itself, a community of one node is one that the node might found.
        total, rest = 0.0, float(n_nodes)
        for at in range(n_touched):
            name = touched[at]
            size = max(sizes[name] - 1.0, 0.5) if name == mine else sizes[name]
            share = size * exp(weights[name] * log_odds[name] - most)
            # Only what was touched is cleared: all K for each node would take N K steps.
            total, rest = total + share, rest - sizes[name]
            weights[name] = 0.0
            if name == mine:
                own[node] = share
            elif share > second[node]:
                seconds[node], second[node] = name, share
        # All communities without an edge to the node, at once; the exponent of each is 0.
        total += rest * exp(-most)
        own[node] /= total
        second[node] /= total
    return Memberships(own, seconds, second)


def compile_memberships() -> None:
    """Compile what both ways need: which of them a graph takes is not known before."""
    labels = np.zeros(2, np.int32)
    beliefs = Prior(np.full((2, N_KEPT), NOBODY, np.int32), np.ones((2, N_KEPT), np.float32))
    beliefs.communities[:, 0] = labels
    believed_memberships(beliefs, labels)
    memberships_given_others(finest_level(csr_array((2, 2))), labels)
