"""The communities of one window, numbered by their members alone, and compared with another's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stream_icd.core.arrays import NOBODY, Floats, Ids
from stream_icd.core.node_ids import places
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.tracking import packed

_MOST_CELLS = 1 << 24
"""Pairs of communities in a table of weights, at most: 128 MiB, half a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Nodes in ascending order, and the community of each."""

    nodes: pa.Array
    labels: Ids  # (n_nodes,) in 0..K-1
    names: Ids  # (K,) the original number of each community
    sizes: Ids  # (K,) members of each

    @classmethod
    def by_first_node(cls, nodes: pa.Array, labels: NDArray[np.int32]) -> Partition:
        """Number communities by their smallest node, independent of labels and order."""
        nodes, ordered = _ascending(nodes, labels)
        names, first, inverse, sizes = np.unique(
            ordered, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return cls(nodes, rank[inverse], names[order], sizes[order])

    @classmethod
    def by_name(cls, nodes: pa.Array, communities: Ids) -> Partition:
        """Number communities in the order of their stable ids."""
        nodes, ordered = _ascending(nodes, communities)
        if ordered.max(initial=0) > 10 * len(ordered):
            names, inverse, sizes = np.unique(ordered, return_inverse=True, return_counts=True)
            return cls(nodes, inverse, names, sizes)
        counts = np.bincount(ordered)  # ten times faster, if there are not too many unused ids
        names = np.flatnonzero(counts)
        place = np.cumsum(counts > 0) - 1
        return cls(nodes, place[ordered], names, counts[names])

    @classmethod
    def unpacked(cls, members: bytes) -> Partition:
        """Return the communities of a packed window, named by their stable ids."""
        return cls.by_name(*packed.unpacked(members))

    @property
    def n_communities(self) -> int:
        return len(self.names)

    def shared_nodes(self, new: Partition) -> tuple[Ids, Ids]:
        """Return the positions of the shared nodes here and in `new`, `(n_shared,)` each.

        Integer ids and string ids are never equal.
        """
        at = places(new.nodes, self.nodes)
        there = np.flatnonzero(at >= 0)
        return at[there], there

    def agreement(self, other: Partition) -> float | None:
        """Return the NMI of two partitions on their common nodes; None if they have none."""
        rows, columns = other.shared_nodes(self)
        return nmi(other.labels[rows], self.labels[columns]) if len(rows) else None

    def overlaps(self, new: Partition) -> Overlaps:
        """Compare two windows in O(n + pairs); there is at most one pair per node."""
        rows, columns = self.shared_nodes(new)
        before, after = self.labels[rows], new.labels[columns]
        shape = (self.n_communities, new.n_communities)
        counts = coo_array((np.ones(len(rows), np.int64), (before, after)), shape).tocsr().tocoo()
        return Overlaps(
            old=counts.row.astype(np.int64),
            new=counts.col.astype(np.int64),
            shared=counts.data,
            old_sizes=np.bincount(before, minlength=shape[0]),
            new_sizes=np.bincount(after, minlength=shape[1]),
        )

    def no_overlaps(self, new: Partition) -> Overlaps:
        """Return the overlaps of two windows that have no node in common."""
        none = np.empty(0, np.int64)
        return Overlaps(none, none, none, np.zeros_like(self.names), np.zeros_like(new.names))


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """The pairs of communities that share nodes, counted on the nodes present in both windows."""

    old: Ids  # (n_pairs,) the first community of each
    new: Ids  # (n_pairs,) the second
    shared: Ids  # (n_pairs,) number of nodes they share, at least 1
    old_sizes: Ids  # (K,) number of each community's nodes that are in both windows
    new_sizes: Ids

    @property
    def jaccard(self) -> Floats:
        """|a ∩ b| / |a ∪ b| of each pair."""
        return self.shared / (self.old_sizes[self.old] + self.new_sizes[self.new] - self.shared)

    def matched(self, threshold: float) -> Ids:
        """Return the old community that matches each new one, `(K_new,)`, or `NOBODY`.

        One to one, with the largest sum of Jaccard indices among pairs of at least `threshold`
        (Greene et al. 2010, section 3). A community has at most 1 / threshold partners of that
        kind, so they fall into small pieces, each matched by the Hungarian method; one of more than
        `_MOST_CELLS` possible pairs by the best pairs first.
        """
        candidates = np.flatnonzero(self.jaccard >= threshold)
        n_old, n_new = len(self.old_sizes), len(self.new_sizes)
        partners = np.full(n_new, NOBODY, np.int64)
        old, new = self.old[candidates], self.new[candidates]
        weights = self.jaccard[candidates]
        for pairs in _pieces(old, n_old + new, n_old + n_new):
            a, b = _best(old[pairs], new[pairs], weights[pairs])
            partners[b] = a
        return partners


def _ascending(nodes: pa.Array, values: NDArray[np.integer]) -> tuple[pa.Array, Ids]:
    import pyarrow.compute as pc

    if pa.types.is_integer(nodes.type):
        ids = nodes.to_numpy()
        if (ids[1:] > ids[:-1]).all():
            return nodes, values.astype(np.int64)
    order = pc.sort_indices(nodes)
    return nodes.take(order), values[order.to_numpy()].astype(np.int64)


def _pieces(rows: Ids, columns: Ids, n: int) -> list[Ids]:
    """Return the pairs of each connected component of the candidates' bipartite graph."""
    if not len(rows):
        return []
    graph = coo_array((np.ones(len(rows)), (rows, columns)), (n, n))
    piece = connected_components(graph, directed=False)[1][rows]
    order = np.argsort(piece, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(piece[order])) + 1)


def _best(old: Ids, new: Ids, weights: Floats) -> tuple[Ids, Ids]:
    """Return the maximum-weight matching of a few candidate pairs."""
    if len(old) == 1:
        return old, new
    rows, row = np.unique(old, return_inverse=True)
    columns, column = np.unique(new, return_inverse=True)
    if len(rows) * len(columns) > _MOST_CELLS:
        return _best_first(old, new, weights)
    dense = np.zeros((len(rows), len(columns)))
    dense[row, column] = weights
    a, b = linear_sum_assignment(dense, maximize=True)
    real = dense[a, b] > 0
    return rows[a[real]], columns[b[real]]


def _best_first(old: Ids, new: Ids, weights: Floats) -> tuple[Ids, Ids]:
    """Return a matching of at least half of the maximum weight, in O(n log n)."""
    matched_old: set[int] = set()
    matched_new: set[int] = set()
    chosen: list[int] = []
    order = np.argsort(-weights, kind="stable")
    for at, a, b in zip(order.tolist(), old[order].tolist(), new[order].tolist(), strict=True):
        if a not in matched_old and b not in matched_new:
            matched_old.add(a)
            matched_new.add(b)
            chosen.append(at)
    return old[chosen], new[chosen]
