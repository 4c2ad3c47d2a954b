"""The communities of the evidence by another method than bp, such as the paper's.

The evidence is a graph, so any method can find its communities. A method says nothing of beliefs:
each node is in one community for certain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.methods.bp.level_graph import Rows, compact, entries_at, level_of
from stream_icd.methods.bp.likelihood import mixing_beyond_chance
from stream_icd.methods.bp.partition import common_nodes, match_labels
from stream_icd.methods.bp.posterior import Posterior, certain_posterior

Find = Callable[[csr_array, int | None, Labels], Labels]
"""Finds the communities of a graph, K of them if K is given. The last argument are the communities
known of its nodes, `(n,)`, `NOBODY` for new ones: a method may start from them."""


def found_by(
    find: Find,
    total: Rows,
    known: Posterior,
    rows: Ids,
    n_communities: int | None,
    kept: float,
) -> Posterior:
    """Return the communities that a method finds in the evidence.

    It is asked about the nodes with edges, and about new ones. Others stay in their community, and
    less is known of them with each window.

    total: the evidence with the window; rows: nodes of the window.
    n_communities: K of the nodes that it is asked about, if these are as many.
    kept: the share of what is known of nodes without edges that remains.
    """
    likeliest = known.likeliest
    asked = np.diff(total.indptr) > 0
    asked[rows] |= likeliest[rows] < 0
    nodes = np.flatnonzero(asked)
    graph = entries_at(total, nodes)
    labels = np.full(len(likeliest), NOBODY, np.int32)
    n_found, mixing = 0, known.mixing
    if len(nodes):
        k = None if n_communities is None else min(n_communities, len(nodes))
        matrix = csr_array((graph.weights, graph.indices, graph.indptr), 2 * (len(nodes),))
        labels[nodes], n_found = compact(find(matrix, k, likeliest[nodes]))
        mixing = mixing_beyond_chance(level_of(graph), labels[nodes], n_found)
    idle = np.flatnonzero(~asked & (likeliest >= 0))
    labels[idle] = _followed(likeliest, labels, n_found)[likeliest[idle]]
    posterior = certain_posterior(labels, mixing)
    posterior.shares[idle, 0] = known.shares[idle].sum(axis=1) * np.float32(kept)
    return posterior


def _followed(before: Labels, labels: Labels, n_labels: int) -> Labels:
    """Return the label that nodes without one get from their community before, `(K before,)`.

    It is the one that continues the community, or that has at least half of all its nodes. If there
    is none, they get a label of their own, from `n_labels` on.
    """
    n_before = int(before.max(initial=NOBODY)) + 1
    old, new, counts = common_nodes(before, labels)
    into = n_labels + np.arange(n_before, dtype=np.int32)
    most = 2 * counts >= np.bincount(before[before >= 0], minlength=n_before)[old]
    into[old[most]] = new[most]
    continued = match_labels(labels, before, n_labels, n_before)
    into[continued[continued < n_before]] = np.flatnonzero(continued < n_before)
    return into
