"""The evidence of a graph: the sum of its windows, in which older ones count less.

With decay λ, A ← λ A + B for each window B. A horizon of 1 / (1 − λ) windows is the same: λ = 0 is
the last window alone. The sum is bounded: edges that have become light are dropped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.arrays import Floats, Ids, Labels
from stream_icd.bp.level_graph import entries_at
from stream_icd.graphs.compiled import compiled
from stream_icd.graphs.weights import HEAVIEST

Rows = tuple[Labels, Labels, Floats]
"""A matrix: where its rows begin, columns and weights."""

LEAST_WEIGHT = 0.01
"""An edge of the evidence is dropped below this fraction of the median weight in the window."""

MOST_EDGES = 64
"""Maximum number of edges of the evidence for each node; the lightest are dropped first."""


def added(evidence: csr_array, decay: float, window: csr_array) -> csr_array:
    """Return λ A + B, both of the same nodes, `(n, n)` symmetric."""
    if not decay or not evidence.nnz:
        return window
    weights = evidence.data
    if decay < 1 and window.nnz:
        # No edge weighs more than one of all windows can, of the heaviest weight that counts.
        # Otherwise, weights in another unit would outweigh all windows after them.
        most = HEAVIEST / (1 - decay)
        if weights.max() > most * window.data.min():  # seldom: else no median is needed
            weights = np.minimum(weights, most * float(np.median(window.data)))
    known = evidence.indptr, evidence.indices, weights
    indptr, indices, sums = _sum(known, decay, (window.indptr, window.indices, window.data))
    return csr_array((sums, indices, indptr), shape=window.shape)


@compiled()
def _sum(known: Rows, decay: float, window: Rows) -> Rows:
    """The first matrix times λ plus the other one, row by row; columns ascend in both."""
    (indptr, indices, weights), (other_indptr, others, other_weights) = known, window
    n_rows, most, n_kept = len(indptr) - 1, len(indices) + len(others), 0
    starts, columns, sums = np.zeros_like(indptr), np.empty(most, indices.dtype), np.empty(most)
    for row in range(n_rows):
        one, end = indptr[row], indptr[row + 1]
        other, other_end = other_indptr[row], other_indptr[row + 1]
        while one < end or other < other_end:
            left = indices[one] if one < end else n_rows
            right = others[other] if other < other_end else n_rows
            column, total = min(left, right), 0.0
            if left == column:
                total, one = weights[one] * decay, one + 1
            if right == column:
                total, other = total + other_weights[other], other + 1
            columns[n_kept], sums[n_kept] = column, total
            n_kept += total != 0.0  # a very small λ makes it 0
        starts[row + 1] = n_kept
    return starts, columns[:n_kept].copy(), sums[:n_kept].copy()


def kept(total: csr_array, window: csr_array) -> csr_array:
    """Return what is kept of the evidence: heavy enough edges, with rounded weights."""
    weights, least = rounded(total.data), 0.0
    if window.nnz and weights.min() < LEAST_WEIGHT * float(window.data.max()):
        least = LEAST_WEIGHT * float(np.median(window.data))
    most = 2 * MOST_EDGES * total.shape[0]
    if len(weights) > most:
        least = max(least, float(np.partition(weights, -most)[-most]) * (1 + 2**-8))
    heavy = (weights >= least) & (weights > 0)  # rounding may have made one 0
    return _chosen(total, weights, heavy)


def rounded(weights: Floats) -> Floats:
    """Return the weights with 8 significant bits, those of bfloat16: two bytes each."""
    most = np.finfo(np.float32).max / 2
    bits = np.minimum(weights, most).astype(np.float32).view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def unseen(window: csr_array, evidence: csr_array) -> csr_array:
    """Return the edges of a window that the evidence lacks, with weights of 1."""
    new = _only_in(window.indptr, window.indices, evidence.indptr, evidence.indices)
    return _chosen(window, np.ones(window.nnz), new)


@compiled()
def _only_in(
    indptr: Labels, indices: Labels, other_indptr: Labels, others: Labels
) -> NDArray[np.bool_]:
    """Which entries of a matrix another one lacks."""
    lacking = np.empty(len(indices), np.bool_)
    last_row = np.full(len(indptr) - 1, -1, np.int32)  # of the other matrix with this column
    for row in range(len(indptr) - 1):
        for entry in range(other_indptr[row], other_indptr[row + 1]):
            last_row[others[entry]] = row
        for entry in range(indptr[row], indptr[row + 1]):
            lacking[entry] = last_row[indices[entry]] != row
    return lacking


def _chosen(graph: csr_array, weights: Floats, chosen: NDArray[np.bool_]) -> csr_array:
    """Return the graph with only these of its entries, and with these weights."""
    indptr = np.append(0, np.cumsum(chosen)).astype(np.int32)[graph.indptr]
    return csr_array((weights[chosen], graph.indices[chosen], indptr), shape=graph.shape)


def rearranged(graph: csr_array, at: Ids) -> csr_array:
    """Return the graph of the nodes `at`, ascending; -1 for a node without edges."""
    indptr, indices, weights = entries_at(graph.indptr, graph.indices, graph.data, at)
    return csr_array((weights, indices, indptr), shape=(len(at), len(at)))
