"""Overlaps of the communities of two windows, and their one-to-one matching."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stream_icd.tracking.partition import Partition, Positions, shared_nodes

NOBODY = -1


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """The pairs of communities that share nodes, counted on the nodes present in both windows.

    Attributes:
        old, new: numbers of the two communities of each pair, `(n_pairs,)`.
        shared: number of nodes they share, `(n_pairs,)`, at least 1.
        old_sizes, new_sizes: number of each community's nodes that are in both windows, `(K,)`.
    """

    old: Positions
    new: Positions
    shared: Positions
    old_sizes: Positions
    new_sizes: Positions

    @property
    def jaccard(self) -> NDArray[np.float64]:
        """|a ∩ b| / |a ∪ b| of each pair."""
        return self.shared / (self.old_sizes[self.old] + self.new_sizes[self.new] - self.shared)

    @property
    def of_old(self) -> NDArray[np.float64]:
        """|a ∩ b| / |a| of each pair: the fraction of the old community that is in the new one."""
        return self.shared / self.old_sizes[self.old]

    @property
    def of_new(self) -> NDArray[np.float64]:
        """|a ∩ b| / |b| of each pair: the fraction of the new community that is from the old."""
        return self.shared / self.new_sizes[self.new]


def overlaps(old: Partition, new: Partition) -> Overlaps:
    """Compare two windows in O(n + pairs); there is at most one pair per node."""
    rows, columns = shared_nodes(old, new)
    before, after = old.labels[rows], new.labels[columns]
    shape = (old.n_communities, new.n_communities)
    counts = coo_array((np.ones(len(rows), np.int64), (before, after)), shape).tocsr().tocoo()
    return Overlaps(
        old=counts.row.astype(np.int64),
        new=counts.col.astype(np.int64),
        shared=counts.data,
        old_sizes=np.bincount(before, minlength=shape[0]),
        new_sizes=np.bincount(after, minlength=shape[1]),
    )


def no_overlaps(old: Partition, new: Partition) -> Overlaps:
    """Return the overlaps of two windows that have no node in common."""
    none = np.empty(0, np.int64)
    sizes = [np.zeros(partition.n_communities, np.int64) for partition in (old, new)]
    return Overlaps(none, none, none, *sizes)


def match(between: Overlaps, threshold: float) -> Positions:
    """Return the old community that matches each new one, `(K_new,)`, or `NOBODY`.

    One to one, with the largest sum of Jaccard indices among pairs of at least `threshold`
    (Greene et al. 2010, section 3). A community has at most 1 / threshold partners of that
    kind, so they fall into small pieces, each matched by the Hungarian method.
    """
    candidates = np.flatnonzero(between.jaccard >= threshold)
    n_old, n_new = len(between.old_sizes), len(between.new_sizes)
    partners = np.full(n_new, NOBODY, np.int64)
    old, new = between.old[candidates], between.new[candidates]
    weights = between.jaccard[candidates]
    for pairs in _pieces(old, n_old + new, n_old + n_new):
        a, b = _best(old[pairs], new[pairs], weights[pairs])
        partners[b] = a
    return partners


def _pieces(rows: Positions, columns: Positions, n: int) -> list[Positions]:
    """Return the pairs of each connected component of the candidates' bipartite graph."""
    if not len(rows):
        return []
    graph = coo_array((np.ones(len(rows)), (rows, columns)), (n, n))
    piece = connected_components(graph, directed=False)[1][rows]
    order = np.argsort(piece, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(piece[order])) + 1)


def _best(
    old: Positions, new: Positions, weights: NDArray[np.float64]
) -> tuple[Positions, Positions]:
    """Return the maximum-weight matching of a few candidate pairs."""
    if len(old) == 1:
        return old, new
    rows, row = np.unique(old, return_inverse=True)
    columns, column = np.unique(new, return_inverse=True)
    dense = np.zeros((len(rows), len(columns)))
    dense[row, column] = weights
    a, b = linear_sum_assignment(dense, maximize=True)
    real = dense[a, b] > 0
    return rows[a[real]], columns[b[real]]
