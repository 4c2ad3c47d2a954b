"""Moves of single nodes that raise modularity, and the refinement of a partition by them.

Modularity at resolution γ (Reichardt and Bornholdt 2006), here without its constant factor:
Q = Σ_c (w_c − γ vol_c² / 2 vol), w_c the weight of the edges inside community c, vol_c the sum of
its strengths, vol the sum of all strengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.graphs.compiled import compiled

SMALLEST_GAIN = 1e-10
"""A gain below this fraction of an edge of weight 1 counts as a tie."""


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
    n_nodes = len(labels)
    penalty = resolution / max(graph.total, 1e-300)
    volumes, sizes = _volumes_and_sizes(graph, labels)
    links, touched = np.zeros(n_nodes), np.empty(n_nodes, np.int32)
    queue, waiting = order.copy(), np.ones(n_nodes, np.bool_)
    head, n_waiting, n_moves = 0, n_nodes, 0
    while n_waiting:
        node = queue[head]
        head = head + 1 if head + 1 < n_nodes else 0
        n_waiting -= 1
        waiting[node] = False
        own, strength = labels[node], graph.strengths[node]
        if sizes[own] == 1 and not may_empty:
            continue
        n_touched = _gather_links(graph, node, labels, links, touched)
        best = own
        best_gain = links[own] - penalty * strength * (volumes[own] - strength) + SMALLEST_GAIN
        for community in touched[:n_touched]:
            gain = links[community] - penalty * strength * volumes[community]
            links[community] = 0.0
            if gain > best_gain and community != own:
                best, best_gain = community, gain
        if best == own:
            continue
        labels[node] = best
        volumes[own] -= strength
        volumes[best] += strength
        sizes[own] -= 1
        sizes[best] += 1
        n_moves += 1
        n_waiting = _wake_neighbours(graph, node, labels, queue, waiting, head, n_waiting)
    return n_moves


@compiled()
def connected_pieces(
    graph: LevelGraph, labels: Labels, order: NDArray[np.int32], resolution: float
) -> Labels:
    """Split each community into well-linked, connected pieces: labels (n,), below n.

    The refinement of Leiden (Traag, Waltman and van Eck 2019), greedy instead of random: every
    node starts alone and, if still alone at its turn, joins the piece of its own community with
    the largest gain. The label of a piece is its first node.
    """
    n_nodes = len(labels)
    penalty = resolution / max(graph.total, 1e-300)
    pieces = np.arange(n_nodes).astype(np.int32)
    volumes, sizes = graph.strengths.copy(), np.ones(n_nodes, np.int32)
    links, touched = np.zeros(n_nodes), np.empty(n_nodes, np.int32)
    for node in order:
        if sizes[node] != 1:  # others have joined it, or it has joined others
            continue
        n_touched = _gather_links(graph, node, pieces, links, touched)
        strength, best, best_gain = graph.strengths[node], node, SMALLEST_GAIN
        for piece in touched[:n_touched]:
            gain = links[piece] - penalty * strength * volumes[piece]
            links[piece] = 0.0
            if gain > best_gain and labels[piece] == labels[node]:
                best, best_gain = piece, gain
        if best != node:
            pieces[node] = best
            sizes[best] += 1
            sizes[node] = 0
            volumes[best] += strength
    return pieces


@compiled()
def _volumes_and_sizes(
    graph: LevelGraph, labels: Labels
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    volumes, sizes = np.zeros(len(labels)), np.zeros(len(labels), np.int32)
    for node, label in enumerate(labels):
        volumes[label] += graph.strengths[node]
        sizes[label] += 1
    return volumes, sizes


@compiled()
def _gather_links(
    graph: LevelGraph,
    node: int,
    groups: Labels,
    links: NDArray[np.float64],
    touched: NDArray[np.int32],
) -> int:
    """Sum the node's edge weights into each group in `links`; list those groups in `touched`.

    Returns the number of groups. `links` must be zero before; the caller resets it to zero.
    """
    n_touched = 0
    for entry in range(graph.indptr[node], graph.indptr[node + 1]):
        group = groups[graph.indices[entry]]
        if links[group] == 0.0:
            touched[n_touched] = group
            n_touched += 1
        links[group] += graph.weights[entry]
    return n_touched


@compiled()
def _wake_neighbours(
    graph: LevelGraph,
    node: int,
    labels: Labels,
    queue: NDArray[np.int32],
    waiting: NDArray[np.bool_],
    head: int,
    n_waiting: int,
) -> int:
    """Put neighbours in other communities back into the ring `queue`; returns its length."""
    for entry in range(graph.indptr[node], graph.indptr[node + 1]):
        neighbour = graph.indices[entry]
        if not waiting[neighbour] and labels[neighbour] != labels[node]:
            waiting[neighbour] = True
            tail = head + n_waiting
            queue[tail if tail < len(queue) else tail - len(queue)] = neighbour
            n_waiting += 1
    return n_waiting
