"""The evidence of a graph: the sum of its windows, in which older ones count less.

With decay λ, A ← λ A + B for each window B. A horizon of 1 / (1 − λ) windows is the same: λ = 0 is
the last window alone. The sum is bounded: edges that have become light are dropped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.graphs.compiled import compiled
from stream_icd.graphs.weights import HEAVIEST

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]

LEAST_WEIGHT = 0.01
"""An edge of the evidence is dropped below this fraction of the median weight in the window."""

MOST_EDGES = 64
"""Maximum number of edges of the evidence for each node; the lightest are dropped first."""


def added(evidence: csr_array, decay: float, window: csr_array) -> csr_array:
    """Return λ A + B, both of the same nodes, `(n, n)` symmetric."""
    if not decay or not evidence.nnz:
        return window
    known = _bounded(evidence, decay, window)
    indptr, indices, weights = _sum(
        known.indptr, known.indices, known.data, decay, window.indptr, window.indices, window.data
    )
    return csr_array((weights, indices, indptr), shape=window.shape)


@compiled()
def _sum(
    indptr: Rows,
    indices: Rows,
    weights: Floats,
    decay: float,
    other_indptr: Rows,
    others: Rows,
    other_weights: Floats,
) -> tuple[Rows, Rows, Floats]:
    """The first matrix times λ plus the other one, row by row; columns ascend in both."""
    most, n_kept = len(indices) + len(others), 0
    starts, columns, sums = np.zeros_like(indptr), np.empty(most, indices.dtype), np.empty(most)
    for row in range(len(indptr) - 1):
        one, end = indptr[row], indptr[row + 1]
        other, other_end = other_indptr[row], other_indptr[row + 1]
        while one < end and other < other_end:
            column, total = indices[one], weights[one] * decay
            if column == others[other]:
                total += other_weights[other]
                one, other = one + 1, other + 1
            elif column < others[other]:
                one += 1
            else:
                column, total = others[other], other_weights[other]
                other += 1
            columns[n_kept], sums[n_kept] = column, total
            n_kept += total != 0.0  # a very small λ makes it 0
        for rest in range(one, end):
            columns[n_kept], sums[n_kept] = indices[rest], weights[rest] * decay
            n_kept += sums[n_kept] != 0.0
        for rest in range(other, other_end):
            columns[n_kept], sums[n_kept] = others[rest], other_weights[rest]
            n_kept += 1
        starts[row + 1] = n_kept
    return starts, columns[:n_kept].copy(), sums[:n_kept].copy()


def _bounded(evidence: csr_array, decay: float, window: csr_array) -> csr_array:
    """Return the evidence with edges that weigh no more than an edge of all windows can.

    That is the sum of the heaviest weights that count (`graphs.weights`) in windows like this one.
    Otherwise, a window with weights in another unit would outweigh all windows after it.
    """
    if decay == 1 or not window.nnz:
        return evidence
    most = HEAVIEST / (1 - decay)
    if evidence.data.max() <= most * window.data.min():  # the usual case, which needs no median
        return evidence
    weights = np.minimum(evidence.data, most * float(np.median(window.data)))
    return csr_array((weights, evidence.indices, evidence.indptr), shape=evidence.shape)


def kept(total: csr_array, window: csr_array) -> csr_array:
    """Return what is kept of the evidence: heavy enough edges, with rounded weights."""
    weights, least = rounded(total.data), 0.0
    if window.nnz and weights.min() < LEAST_WEIGHT * float(window.data.max()):
        least = LEAST_WEIGHT * float(np.median(window.data))
    most = 2 * MOST_EDGES * total.shape[0]
    if len(weights) > most:
        least = max(least, float(np.partition(weights, -most)[-most]) * (1 + 2**-8))
    indptr, indices, weights = _heavy(total.indptr, total.indices, weights, least)
    return csr_array((weights, indices, indptr), shape=total.shape)


@compiled()
def _heavy(indptr: Rows, indices: Rows, weights: Floats, least: float) -> tuple[Rows, Rows, Floats]:
    """The entries of a matrix that weigh enough; rounding may have made one 0."""
    starts, columns, heavy, n_kept = np.zeros_like(indptr), indices.copy(), weights.copy(), 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            columns[n_kept], heavy[n_kept] = indices[entry], weights[entry]
            n_kept += weights[entry] >= least and weights[entry] > 0
        starts[row + 1] = n_kept
    return starts, columns[:n_kept].copy(), heavy[:n_kept].copy()


def rounded(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights with 8 significant bits, those of bfloat16: two bytes each."""
    most = np.finfo(np.float32).max / 2
    bits = np.minimum(weights, most).astype(np.float32).view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def unseen(window: csr_array, evidence: csr_array) -> csr_array:
    """Return the edges of a window that the evidence lacks, with weights of 1."""
    indptr, indices = _only_in(window.indptr, window.indices, evidence.indptr, evidence.indices)
    return csr_array((np.ones(len(indices)), indices, indptr), shape=window.shape)


@compiled()
def _only_in(indptr: Rows, indices: Rows, other_indptr: Rows, others: Rows) -> tuple[Rows, Rows]:
    """The entries of a matrix that another one lacks, row by row."""
    kept_indptr, kept_indices, n_kept = np.zeros_like(indptr), np.empty_like(indices), 0
    last_row = np.full(len(indptr) - 1, -1, np.int32)  # of the other matrix with this column
    for row in range(len(indptr) - 1):
        for entry in range(other_indptr[row], other_indptr[row + 1]):
            last_row[others[entry]] = row
        for entry in range(indptr[row], indptr[row + 1]):
            kept_indices[n_kept] = indices[entry]
            n_kept += last_row[indices[entry]] != row
        kept_indptr[row + 1] = n_kept
    return kept_indptr, kept_indices[:n_kept].copy()


def restricted(graph: csr_array, rows: NDArray[np.int64]) -> csr_array:
    """Return the graph of some of its nodes, `rows`, ascending."""
    indptr, indices, weights = _among(graph.indptr, graph.indices, graph.data, rows)
    return csr_array((weights, indices, indptr), shape=(len(rows), len(rows)))


@compiled()
def _among(
    indptr: Rows, indices: Rows, weights: Floats, rows: NDArray[np.int64]
) -> tuple[Rows, Rows, Floats]:
    """The entries of some rows of a matrix in the columns of the same numbers."""
    place, n_kept = np.full(len(indptr) - 1, -1, indices.dtype), 0
    for new, row in enumerate(rows):
        place[row] = new
    starts, columns, kept = np.zeros(len(rows) + 1, indptr.dtype), indices.copy(), weights.copy()
    for new, row in enumerate(rows):
        for entry in range(indptr[row], indptr[row + 1]):
            columns[n_kept], kept[n_kept] = place[indices[entry]], weights[entry]
            n_kept += place[indices[entry]] >= 0
        starts[new + 1] = n_kept
    return starts, columns[:n_kept].copy(), kept[:n_kept].copy()


def moved(graph: csr_array, rows: NDArray[np.int64], n_nodes: int) -> csr_array:
    """Return the graph among `n_nodes` nodes, of which its own are `rows`, ascending."""
    if len(rows) == n_nodes:
        return graph
    indptr = np.zeros(n_nodes + 1, graph.indptr.dtype)
    indptr[rows + 1] = np.diff(graph.indptr)
    indices = rows.astype(graph.indices.dtype).take(graph.indices)
    np.cumsum(indptr, out=indptr)
    return csr_array((graph.data, indices, indptr), shape=(n_nodes, n_nodes))
