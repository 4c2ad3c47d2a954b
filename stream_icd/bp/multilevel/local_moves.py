"""Moves of single nodes that raise modularity, and the refinement of a partition by them.

Modularity at resolution γ (Reichardt and Bornholdt 2006), here without its constant factor:
Q = Σ_c (w_c − γ vol_c² / 2 vol), w_c the weight of the edges inside community c, vol_c the sum of
its strengths, vol the sum of all strengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, ask_for_groups
from stream_icd.graphs.compiled import compiled
from stream_icd.graphs.in_threads import in_parts
from stream_icd.graphs.prefetch import FAR, prefetch

Floats = NDArray[np.float64]

SMALLEST_GAIN = 1e-10
"""A gain below this fraction of an edge of weight 1 counts as a tie."""

LINKS, VOLUME = 0, 1
"""Columns of the totals of a group, side by side in memory: both are read at once."""


@compiled()
def move_nodes(
    graph: LevelGraph,
    labels: Labels,
    order: NDArray[np.int32],
    resolution: float,
    may_empty: bool = True,
) -> int:
    """Move nodes to the neighbouring community of largest gain, in place, until none gains.

    Uses the queue of "fast local moving" (Traag, Waltman and van Eck 2019): first all nodes in
    this order, then only neighbours of moved nodes. Labels are below n; returns the number of
    moves. Unless communities may be emptied, the last node of each stays.
    """
    n_nodes, (indptr, indices, weights, strengths, total) = len(labels), graph
    penalty = resolution / max(total, 1e-300)
    totals, sizes = _totals_and_sizes(strengths, labels)
    touched = np.empty(n_nodes + 1, np.int32)
    queue, waiting = order.copy(), np.ones(n_nodes, np.bool_)
    head, n_waiting, n_moves = 0, n_nodes, 0
    while n_waiting:
        node = queue[head]
        ask_for_groups(indptr, indices, weights, queue, head, labels)
        if n_nodes >= FAR and head + 8 < n_nodes:
            prefetch(strengths, queue[head + 8])
            later = queue[head + 2]
            for entry in range(indptr[later], indptr[later + 1]):
                prefetch(totals, labels[indices[entry]])
        head = head + 1 if head + 1 < n_nodes else 0
        n_waiting -= 1
        waiting[node] = False
        own, strength = labels[node], strengths[node]
        if sizes[own] == 1 and not may_empty:
            continue
        n_touched = _gather_links(indptr, indices, weights, node, labels, totals, touched)
        best = own
        best_gain = (
            totals[own, LINKS]
            - penalty * strength * (totals[own, VOLUME] - strength)
            + SMALLEST_GAIN
        )
        for community in touched[:n_touched]:
            gain = totals[community, LINKS] - penalty * strength * totals[community, VOLUME]
            totals[community, LINKS] = 0.0
            if gain > best_gain and community != own:
                best, best_gain = community, gain
        if best == own:
            continue
        labels[node] = best
        totals[own, VOLUME] -= strength
        totals[best, VOLUME] += strength
        sizes[own] -= 1
        sizes[best] += 1
        n_moves += 1
        for entry in range(indptr[node], indptr[node + 1]):
            neighbour = indices[entry]
            if not waiting[neighbour] and labels[neighbour] != best:
                waiting[neighbour] = True
                tail = head + n_waiting
                queue[tail if tail < n_nodes else tail - n_nodes] = neighbour
                n_waiting += 1
    return n_moves


def connected_pieces(
    graph: LevelGraph, labels: Labels, order: Labels, resolution: float, threads: int = 1
) -> Labels:
    """Split each community into well-linked, connected pieces: labels (n,), below n.

    The refinement of Leiden (Traag, Waltman and van Eck 2019), greedy instead of random: every
    node starts alone and, if still alone at its turn, joins the piece of its own community with
    the largest gain. The label of a piece is its first node.

    The same on any number of threads: communities do not touch each other's pieces.
    """
    pieces = np.arange(graph.n_nodes, dtype=np.int32)
    state = pieces, *_totals_and_sizes(graph.strengths, pieces)
    if threads == 1:
        _join(graph, labels, order, resolution, *state, 0, graph.n_nodes)
    else:
        in_parts(
            lambda first, end: _join(graph, labels, order, resolution, *state, first, end),
            np.bincount(labels, np.diff(graph.indptr)),
            threads,
        )
    return pieces


@compiled()
def _join(
    graph: LevelGraph,
    labels: Labels,
    order: Labels,
    resolution: float,
    pieces: Labels,
    totals: Floats,
    sizes: Labels,
    first: int,
    end: int,
) -> None:
    """Join the nodes of the communities first..end-1 to pieces, in place."""
    n_nodes, (indptr, indices, weights, strengths, total) = len(labels), graph
    penalty = resolution / max(total, 1e-300)
    touched = np.empty(n_nodes + 1, np.int32)
    for turn, node in enumerate(order):
        ask_for_groups(indptr, indices, weights, order, turn, labels)
        if not first <= labels[node] < end:
            continue
        if sizes[node] != 1:  # others have joined it, or it has joined others
            continue
        n_touched, own = 0, labels[node]
        for entry in range(indptr[node], indptr[node + 1]):
            neighbour = indices[entry]
            if labels[neighbour] == own:
                piece = pieces[neighbour]
                touched[n_touched] = piece
                n_touched += totals[piece, LINKS] == 0.0
                totals[piece, LINKS] += weights[entry]
        strength, best, best_gain = strengths[node], node, SMALLEST_GAIN
        for piece in touched[:n_touched]:
            gain = totals[piece, LINKS] - penalty * strength * totals[piece, VOLUME]
            totals[piece, LINKS] = 0.0
            if gain > best_gain:
                best, best_gain = piece, gain
        if best != node:
            pieces[node] = best
            sizes[best] += 1
            sizes[node] = 0
            totals[best, VOLUME] += strength


@compiled()
def _totals_and_sizes(strengths: Floats, labels: Labels) -> tuple[Floats, Labels]:
    """Of each group of nodes, 0 for links to it and its volume, (n, 2); its size, (n,)."""
    totals, sizes = np.zeros((len(labels), 2)), np.zeros(len(labels), np.int32)
    for node, label in enumerate(labels):
        totals[label, VOLUME] += strengths[node]
        sizes[label] += 1
    return totals, sizes


@compiled(inline="always")
def _gather_links(
    indptr: Labels,
    indices: Labels,
    weights: Floats,
    node: int,
    groups: Labels,
    totals: Floats,
    touched: Labels,
) -> int:
    """Sum the node's edge weights into the links of each group; list those groups in `touched`.

    Returns the number of groups. Links must be zero before; the caller resets them to zero.
    touched: one place more than there can be groups.
    """
    n_touched = 0
    for entry in range(indptr[node], indptr[node + 1]):
        group = groups[indices[entry]]
        touched[n_touched] = group  # without a branch, which the processor would have to guess
        n_touched += totals[group, LINKS] == 0.0
        totals[group, LINKS] += weights[entry]
    return n_touched
