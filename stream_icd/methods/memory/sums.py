"""The evidence of a graph: the sum of its windows, in which older ones count less, and its
communities.

With decay λ, A ← λ A + B for each window B, whose weights have mean 1 (`Rows.comparable`). A
horizon of 1 / (1 − λ) windows is the same: λ = 0 is the last window alone. The sum is bounded:
edges that have become light are dropped.
"""

from __future__ import annotations

from math import inf

import numpy as np

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import compiled
from stream_icd.methods.bp.agglomeration import agglomerate, connected
from stream_icd.methods.bp.description_moves import moved_by_description
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import LevelGraph, Rows, compact, entries_where
from stream_icd.methods.bp.modularity import move_nodes
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import MeasuredPartition, measured

_LEAST_WEIGHT = 0.001
"""An edge of the evidence is dropped below this fraction of the mean weight in a window."""

_MOST_EDGES = 64
"""Maximum number of edges of the evidence for each node; the lightest are dropped first."""

_MOST_WINDOWS = 8
"""It may have as many edges as so many windows like the last one, if that is more."""


def grown(evidence: Rows, decay: float, window: Rows) -> Rows:
    """Return what is kept of λ A + B, the evidence with one more window; both of the same nodes."""
    return _kept(_added(evidence, decay, window), len(window.indices))


def _added(evidence: Rows, decay: float, window: Rows) -> Rows:
    """Return λ A + B, both of the same nodes."""
    if not decay or not len(evidence.indices):
        return window
    total: Rows = _sum(evidence, decay, window)
    return total


@compiled()
def _sum(evidence: Rows, decay: float, window: Rows) -> Rows:
    """The first matrix times λ plus the other one, row by row; columns ascend in both."""
    n_rows, most, n_kept = len(evidence.indptr) - 1, len(evidence.indices) + len(window.indices), 0
    starts, columns = np.zeros_like(evidence.indptr), np.empty(most, evidence.indices.dtype)
    sums = np.empty(most)
    for row in range(n_rows):
        old, old_end = evidence.indptr[row], evidence.indptr[row + 1]
        new, new_end = window.indptr[row], window.indptr[row + 1]
        while old < old_end or new < new_end:
            old_column = evidence.indices[old] if old < old_end else n_rows
            new_column = window.indices[new] if new < new_end else n_rows
            column, total = min(old_column, new_column), 0.0
            if old_column == column:
                total, old = evidence.weights[old] * decay, old + 1
            if new_column == column:
                total, new = total + window.weights[new], new + 1
            columns[n_kept], sums[n_kept] = column, total
            n_kept += total != 0.0  # a very small λ makes it 0
        starts[row + 1] = n_kept
    return Rows(starts, columns[:n_kept].copy(), sums[:n_kept].copy())


def _kept(total: Rows, n_entries: int) -> Rows:
    """Return what is kept of the evidence: heavy enough edges, with rounded weights.

    n_entries: entries of the last window.
    """
    weights, least = _rounded(total.weights), _LEAST_WEIGHT
    most = max(2 * _MOST_EDGES * (len(total.indptr) - 1), _MOST_WINDOWS * n_entries)
    if len(weights) > most:
        least = max(least, float(np.partition(weights, -most)[-most]) * (1 + 2**-8))
    return entries_where(total._replace(weights=weights), weights >= least)


@compiled()
def _rounded(weights: Floats) -> Floats:
    """Return the weights with 8 significant bits, those of bfloat16: two bytes each."""
    narrow = weights.astype(np.float32)
    bits = narrow.view(np.uint32)
    for at, exact in enumerate(bits):  # to the nearest, and if two are as near, to the even one
        bits[at] = (exact + 0x7FFF + ((exact >> 16) & 1)) & 0xFFFF0000
    return narrow.astype(np.float64)


def searched(
    graph: LevelGraph, parameters: BpParameters, before: Labels, n_searches: int, seed: int
) -> tuple[Labels, bool]:
    """Return the communities of a graph, (n,), and whether a search has corrected the last ones.

    These are the last ones, after moves of nodes that shorten the description, or what a full
    search has found, or the best of both: pieces that are together in both, united while that
    shortens it. A single community counts if no search finds another one.

    graph: all of its nodes have edges.
    before: (n,) the last communities, `NOBODY` for new nodes.
    n_searches: how often to search the graph as if nothing was known of it; once: quickly, if what
        is known saves bits and description length decides (`search`).
    """
    rng = np.random.default_rng(seed)
    start = best = _refined(graph, _with_singles(before), rng)
    if best.bits >= 0 and (before < 0).any():  # nothing else brings new nodes into a community
        move_nodes(graph, best.labels, 1.0, rng)
        start = best = measured(graph, best.labels)
    n_searches = n_searches or not best.labels.any()  # no moves divide a single community: a trap
    is_quick = parameters.search and n_searches == 1 and best.bits < 0
    finds_several = False
    for _ in range(n_searches):
        partitions = [best]
        if is_quick:
            found = _found_quickly(graph, rng)
        else:
            found = found_exactly(graph, parameters, None, rng).labels
            partitions.append(_refined(graph, found, rng))
        finds_several |= bool(found.any())
        both = agglomerate(graph, _common_pieces(best.labels, found))
        partitions.append(_refined(graph, both, rng))
        of_one = inf if finds_several else 0.0
        best = min(partitions, key=lambda partition: partition.bits or of_one)
    labels = compact(connected(graph, best.labels, may_be_alone=not parameters.search))[0]
    return labels, best is not start


def _refined(graph: LevelGraph, labels: Labels, rng: np.random.Generator) -> MeasuredPartition:
    """Return the partition after moves that shorten its description.

    If it saves no bits then, it stays as it is: its description would become shorter until nearly
    all nodes are in one community.
    """
    refined = measured(graph, moved_by_description(graph, labels, rng))
    return refined if refined.bits < 0 else measured(graph, labels)


def _found_quickly(graph: LevelGraph, rng: np.random.Generator) -> Labels:
    """Return communities from nothing: nodes that modularity brought together, united.

    It takes a tenth of the time of `find`, on larger graphs a quarter. What is known has passed
    that once, so it is enough to see where that is wrong.
    """
    labels = np.arange(graph.n_nodes, dtype=np.int32)
    move_nodes(graph, labels, 1.0, rng)
    return agglomerate(graph, labels)


def _common_pieces(before: Labels, after: Labels) -> Labels:
    """Return pieces of nodes that are together in both partitions, (n,)."""
    pairs = before.astype(np.int64) * (int(after.max(initial=0)) + 1) + after
    pieces: Labels = np.unique(pairs, return_inverse=True)[1].astype(np.int32)
    return pieces


def _with_singles(before: Labels) -> Labels:
    """Return the labels with a community of its own for each new node."""
    labels, new = before.copy(), np.flatnonzero(before < 0)
    labels[new] = int(before.max(initial=-1)) + 1 + np.arange(len(new))
    return compact(labels)[0]
