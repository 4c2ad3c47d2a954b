"""The graph that one level of the multi-level method works on, and how it is coarsened."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats, Ids, Labels
from stream_icd.core.compiled import compiled, in_parts, in_threads, n_threads, unsigned
from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.methods.graphs.weights import EXPONENT, comparable_weights

_MOST_ENTRIES = int(np.iinfo(np.int32).max)
"""Maximum number of adjacency entries, two per edge, with 32-bit row pointers."""

ROUNDING = 1e-9
"""Smaller differences, of weights relative to all or in nats, come from rounding."""


class Rows(NamedTuple):
    """A symmetric matrix in CSR form with a zero diagonal; the columns of each row ascend."""

    indptr: Labels  # (n + 1,)
    indices: Labels  # (2E,)
    weights: Floats  # (2E,)

    @classmethod
    def without_edges(cls, n_nodes: int) -> Rows:
        """The matrix of a graph of so many nodes without edges."""
        return rows_of(csr_array((n_nodes, n_nodes)))

    def comparable(self, exponent: float = EXPONENT) -> Rows:
        """The same with weights that are comparable (`graphs.weights`)."""
        return self._replace(weights=comparable_weights(self.weights, exponent))

    def adjacency(self) -> csr_array:
        """The same as a matrix of SciPy; arrays are shared."""
        n_nodes = len(self.indptr) - 1
        return csr_array((self.weights, self.indices, self.indptr), (n_nodes, n_nodes))


class LevelGraph(NamedTuple):
    """An undirected weighted graph in CSR form; edges inside its nodes count in `strengths` only.

    The neighbours of each node, without itself, are in indptr, indices and weights. The last two
    fields are the same on every level.
    """

    indptr: Labels  # (n + 1,)
    indices: Labels  # (2E,)
    weights: Floats  # (2E,), positive
    strengths: Floats  # (n,): sum of the weighted degrees of the single nodes that each stands for
    n_linked: Floats  # (n,): how many of these have edges
    total: float  # sum of the strengths, 2E in an unweighted graph
    n_edges: float  # of the graph of single nodes

    @property
    def n_nodes(self) -> int:
        """Number of nodes on this level."""
        return len(self.strengths)


def rows_of(adjacency: csr_array) -> Rows:
    """The adjacency for compiled loops, (n, n) symmetric with zero diagonal; arrays are shared.

    Raises `LimitExceeded` above `_MOST_ENTRIES` entries, and `BadInput` for a neighbour that is no
    node: the compiled loops do not check these indices.
    """
    n_nodes, n_entries = adjacency.shape[0], len(adjacency.indices)
    check_size(n_nodes, n_entries)
    if n_entries and not 0 <= adjacency.indices.min() <= adjacency.indices.max() < n_nodes:
        raise BadInput(f"a row names a node that is not one of the {n_nodes} nodes")
    indptr, indices = (np.asarray(one, np.int32) for one in (adjacency.indptr, adjacency.indices))
    return Rows(indptr, indices, np.asarray(adjacency.data, np.float64))


def check_size(n_nodes: int, n_entries: int) -> None:
    """Raise `LimitExceeded` if 32 bits do not number the nodes, or the entries of a matrix."""
    if max(n_entries, n_nodes) > _MOST_ENTRIES:
        raise LimitExceeded(
            f"a graph of {n_nodes} nodes and {n_entries // 2} edges is too large: {_MOST_ENTRIES} "
            f"nodes and {_MOST_ENTRIES // 2} edges is the most; send it in parts"
        )


def finest_level(adjacency: csr_array) -> LevelGraph:
    """The level of single nodes; raises as `rows_of`."""
    return level_of(rows_of(adjacency))


def level_of(rows: Rows) -> LevelGraph:
    """The level of single nodes; arrays are shared, not copied."""
    strengths, n_linked = _of_rows(rows.indptr, rows.weights)
    return LevelGraph(*rows, strengths, n_linked, float(strengths.sum()), len(rows.indices) / 2)


@compiled()
def _of_rows(indptr: Labels, weights: Floats) -> tuple[Floats, Floats]:
    """The sum of each row, and whether it has entries, (n,)."""
    sums, linked = np.zeros(len(indptr) - 1), np.zeros(len(indptr) - 1)
    for row in range(len(sums)):
        linked[row] = indptr[row] < indptr[row + 1]
        for entry in range(indptr[row], indptr[row + 1]):
            sums[row] += weights[entry]
    return sums, linked


@compiled()
def inside_of(graph: LevelGraph) -> Floats:
    """The weight of the edges inside each node, (n,): 0 on the level of single nodes."""
    return np.maximum(graph.strengths - _of_rows(graph.indptr, graph.weights)[0], 0.0) / 2


def links(graph: LevelGraph, labels: Labels, inside: bool) -> Floats:
    """The weight of each node's edges to nodes of its own label, or of other labels, (n,)."""
    found = np.empty(len(labels))
    add = partial(_add_links, graph, labels, inside, found)
    in_parts(add, len(labels), lambda: np.diff(graph.indptr))
    return found


@compiled()
def _add_links(
    graph: LevelGraph, labels: Labels, inside: bool, found: Floats, first: int, end: int
) -> None:
    indptr, indices, weights = unsigned(graph.indptr), unsigned(graph.indices), graph.weights
    for node in range(first, end):
        weight = 0.0
        for entry in range(indptr[node], indptr[node + 1]):
            weight += weights[entry] * ((labels[indices[entry]] == labels[node]) == inside)
        found[node] = weight


def summed(values: Floats | NDArray[np.bool_], labels: Labels, n_groups: int) -> Floats:
    """The sum of the values of the nodes of each group, (n_groups,)."""
    return np.bincount(labels, values, n_groups).astype(np.float64, copy=False)


@compiled()
def compact(labels: Labels) -> tuple[Labels, int]:
    """Renumber labels to 0..K-1 in order of first appearance; returns them and K."""
    new_label = np.full(labels.max() + 1 if len(labels) else 0, -1, np.int32)
    compacted = np.empty(len(labels), np.int32)
    n_labels = 0
    for node, label in enumerate(labels):
        if new_label[label] < 0:
            new_label[label] = n_labels
            n_labels += 1
        compacted[node] = new_label[label]
    return compacted, n_labels


@compiled()
def members_of(labels: Labels, n_groups: int) -> tuple[Labels, Labels]:
    """Nodes sorted by group, and the start of each group in that order: (n,), (n_groups + 1,)."""
    starts = np.zeros(n_groups + 1, np.int32)
    for label in labels:
        starts[label + 1] += 1
    for group in range(n_groups):
        starts[group + 1] += starts[group]
    free = starts[:-1].copy()
    members = np.empty(len(labels), np.int32)
    for node, label in enumerate(labels):
        members[free[label]] = node
        free[label] += 1
    return members, starts


@compiled()
def entries_where(graph: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """The matrix with only these of its entries."""
    n_entries, n_chosen, end = len(chosen), chosen.sum(), 0
    places = np.empty(n_entries + 1, np.int32)  # of each entry, among those that are chosen
    columns = np.empty(n_chosen + 1, np.int32)
    weights = np.empty(n_chosen + 1)  # with a place for one that is not chosen, after the last
    for entry in range(n_entries):  # not by rows, whose ends the processor cannot foresee
        columns[end], weights[end] = graph.indices[entry], graph.weights[entry]
        places[entry] = end
        end += chosen[entry]
    places[n_entries] = end
    return Rows(places[graph.indptr], columns[:end], weights[:end])


@compiled()
def within_groups(graph: LevelGraph, labels: Labels) -> LevelGraph:
    """The same nodes and strengths with only the edges inside groups."""
    rows = Rows(graph.indptr, graph.indices, graph.weights)
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    inside = np.empty(len(indices), np.bool_)
    for node, label in enumerate(labels):
        for entry in range(indptr[node], indptr[node + 1]):
            inside[entry] = labels[indices[entry]] == label
    own = entries_where(rows, inside)
    return LevelGraph(own.indptr, own.indices, own.weights, *graph[3:])


@compiled()
def entries_at(graph: Rows | LevelGraph, at: Ids) -> Rows:
    """The entries of some rows and columns of a matrix; `at` ascends, but for -1: an empty one."""
    indptr, indices, weights = graph.indptr, graph.indices, graph.weights
    place, starts = np.full(len(indptr) - 1, -1, np.int32), np.zeros(len(at) + 1, np.int32)
    n_entries, end = 0, 0
    for new, row in enumerate(at):
        if row >= 0:
            place[row] = new
            n_entries += indptr[row + 1] - indptr[row]
        starts[new + 1] = n_entries
    columns, kept = np.empty(n_entries, np.int32), np.empty(n_entries)
    if n_entries == len(indices):  # nodes without entries come or go
        for entry, column in enumerate(indices):
            columns[entry], kept[entry] = place[column], weights[entry]
        return Rows(starts, columns, kept)
    for new, row in enumerate(at):
        if row >= 0:
            for entry in range(indptr[row], indptr[row + 1]):
                column = place[indices[entry]]
                columns[end], kept[end] = column, weights[entry]
                end += column >= 0
        starts[new + 1] = end
    return Rows(starts, columns[:end], kept[:end])


def coarsen(graph: LevelGraph, labels: Labels, n_groups: int) -> LevelGraph:
    """Merge each group 0..n_groups-1 to one node, and sum the edge weights between two groups.

    Each thread makes the rows of some of the groups.
    """
    if n_threads() == 1:
        coarse: LevelGraph = coarsened(graph, labels, n_groups)
        return coarse
    members, starts = members_of(labels, n_groups)
    parts = in_parts(
        partial(_group_rows, graph, labels, members, starts),
        n_groups,
        lambda: np.bincount(labels, np.diff(graph.indptr), n_groups),
    )
    counts, indices, weights = (_joined(one) for one in zip(*parts, strict=True))
    indptr = np.append(0, np.cumsum(counts)).astype(np.int32)
    of_nodes = graph.strengths, graph.n_linked
    strengths, n_linked = (summed(sums, labels, n_groups) for sums in of_nodes)
    return LevelGraph(indptr, indices, weights, strengths, n_linked, graph.total, graph.n_edges)


@compiled()
def coarsened(graph: LevelGraph, labels: Labels, n_groups: int) -> LevelGraph:
    """`coarsen` on one thread, for compiled loops."""
    members, starts = members_of(labels, n_groups)
    counts, indices, weights = _group_rows(graph, labels, members, starts, 0, n_groups)
    indptr = np.zeros(n_groups + 1, np.int32)
    indptr[1:] = np.cumsum(counts)
    rows = indptr, indices.copy(), weights.copy()
    strengths, n_linked = np.zeros(n_groups), np.zeros(n_groups)
    for node, group in enumerate(labels):
        strengths[group] += graph.strengths[node]
        n_linked[group] += graph.n_linked[node]
    return LevelGraph(*rows, strengths, n_linked, graph.total, graph.n_edges)


@compiled()
def _group_rows(
    graph: LevelGraph, labels: Labels, members: Labels, starts: Labels, first: int, end: int
) -> tuple[Labels, Labels, Floats]:
    """The rows of the groups first..end-1: number of entries of each, columns and weights.

    The last two are parts of larger arrays.
    """
    indptr, columns, of_entries = unsigned(graph.indptr), unsigned(graph.indices), graph.weights
    labels, members = unsigned(labels), unsigned(members)
    counts = np.empty(end - first, np.int32)
    indices, weights = np.empty(len(columns), np.int32), np.empty(len(columns))
    sums, touched = np.zeros(len(starts) - 1), np.empty(len(starts), np.int32)  # of other groups
    n_edges = 0
    for group in range(first, end):
        n_touched = 0
        for node in members[starts[group] : starts[group + 1]]:
            for edge in range(indptr[node], indptr[node + 1]):
                other = labels[columns[edge]]
                if other != group:
                    touched[n_touched] = other  # without a branch, which the processor would guess
                    n_touched += sums[other] == 0.0
                    sums[other] += of_entries[edge]
        for other in touched[:n_touched]:
            indices[n_edges], weights[n_edges], sums[other] = other, sums[other], 0.0
            n_edges += 1
        counts[group - first] = n_touched
    return counts, indices[:n_edges], weights[:n_edges]


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """`np.concatenate`, each part copied by a thread."""
    bounds = [0, *accumulate(len(part) for part in parts)]
    whole: NDArray[Any] = np.empty(bounds[-1], parts[0].dtype)

    def copy(first: int, end: int) -> None:
        for part in range(first, end):
            whole[bounds[part] : bounds[part + 1]] = parts[part]

    in_threads(copy, range(len(bounds)))
    return whole
