"""The evidence of a graph: the sum of its windows, in which older ones count less.

With decay λ, A ← λ A + B for each window B. A horizon of 1 / (1 − λ) windows is the same: λ = 0 is
the last window alone. The sum is bounded: edges that have become light are dropped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.level_graph import Rows, entries_where
from stream_icd.methods.graphs.weights import HEAVIEST

LEAST_WEIGHT = 0.01
"""An edge of the evidence is dropped below this fraction of the median weight in the window."""

MOST_EDGES = 64
"""Maximum number of edges of the evidence for each node; the lightest are dropped first."""

MOST_HELD = float(np.finfo(np.float32).max) / 2
"""The heaviest weight of the evidence."""

MOST_MEDIAN = 2.0**100
"""The median weight of a window lies between it and its inverse, so that 32-bit floats hold what
the evidence keeps: sums of edges some thousand times as heavy, and edges as light as are kept."""


def in_range(window: Rows) -> Rows:
    """Return a window with weights that the evidence can hold, in another unit if it must be."""
    weights = window.weights
    if not len(weights) or (weights.min() >= 1 / MOST_MEDIAN and weights.max() <= MOST_MEDIAN):
        return window  # as nearly all are: no median is needed
    median = _median(weights)
    unit = min(max(median, 1 / MOST_MEDIAN), MOST_MEDIAN) / median
    return window._replace(weights=(weights * unit).clip(np.finfo(np.float64).tiny, MOST_HELD))


def added(evidence: Rows, decay: float, window: Rows) -> Rows:
    """Return λ A + B, both of the same nodes."""
    if not decay or not len(evidence.indices):
        return window
    weights = evidence.weights
    if decay < 1 and len(window.indices):
        # No edge weighs more than one of all windows can, of the heaviest weight that counts.
        # Otherwise, weights in another unit would outweigh all windows after them.
        most = HEAVIEST / (1 - decay)
        if weights.max() > most * window.weights.min():  # seldom: else no median is needed
            weights = np.minimum(weights, most * _median(window.weights))
    total: Rows = _sum(evidence._replace(weights=weights), decay, window)
    return total


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
    return Rows(starts, columns[:n_kept].copy(), sums[:n_kept].copy())


def kept(total: Rows, window: Rows) -> Rows:
    """Return what is kept of the evidence: heavy enough edges, with rounded weights."""
    weights, least = rounded(total.weights), 0.0
    if len(window.indices) and weights.min() < LEAST_WEIGHT * float(window.weights.max()):
        least = LEAST_WEIGHT * _median(window.weights)
    most = 2 * MOST_EDGES * (len(total.indptr) - 1)
    if len(weights) > most:
        least = max(least, float(np.partition(weights, -most)[-most]) * (1 + 2**-8))
    heavy = (weights >= least) & (weights > 0)  # rounding may have made one 0
    return entries_where(total._replace(weights=weights), heavy)


def _median(weights: Floats) -> float:
    """Return the median weight of a window; most windows have equal weights."""
    heaviest = float(weights.max())
    return heaviest if heaviest == weights.min() else float(np.median(weights))


@compiled()
def rounded(weights: Floats) -> Floats:
    """Return the weights with 8 significant bits, those of bfloat16: two bytes each."""
    found = np.minimum(weights, MOST_HELD).astype(np.float32)
    bits = found.view(np.uint32)
    for at, one in enumerate(bits):
        bits[at] = (one + 0x7FFF + ((one >> 16) & 1)) & 0xFFFF0000
    return found.astype(np.float64)


def unseen(window: Rows, evidence: Rows) -> Rows:
    """Return the edges of a window that the evidence lacks, with weights of 1."""
    ones = np.ones(len(window.indices))
    return entries_where(window._replace(weights=ones), _only_in(window, evidence))


@compiled()
def _only_in(window: Rows, evidence: Rows) -> NDArray[np.bool_]:
    """Which entries of a matrix another one lacks."""
    indices, known = unsigned(window.indices), unsigned(evidence.indices)
    lacking = np.empty(len(indices), np.bool_)
    last_row = np.full(len(window.indptr) - 1, -1, np.int32)  # of the other one with this column
    for row in range(len(window.indptr) - 1):
        for entry in range(evidence.indptr[row], evidence.indptr[row + 1]):
            last_row[known[entry]] = row
        for entry in range(window.indptr[row], window.indptr[row + 1]):
            lacking[entry] = last_row[indices[entry]] != row
    return lacking
