"""Moves of single nodes that raise modularity, and the refinement of a partition by them.

Modularity at resolution γ (Reichardt and Bornholdt 2006), here without its constant factor:
Q = Σ_c (w_c − γ vol_c² / 2 vol), w_c the weight of the edges inside community c, vol_c its
strengths added up, vol all of them.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from stream_icd.icd.refined.level_graph import Labels, LevelGraph

# A gain below this share of an edge of weight 1 is a tie, not an improvement.
SMALLEST_GAIN = 1e-10


@numba.njit(cache=True, nogil=True)
def move_nodes(
    graph: LevelGraph,
    labels: Labels,
    order: NDArray[np.int32],
    resolution: float,
    may_empty: bool = True,
) -> int:
    """Move nodes to the neighbouring community of largest gain until none gains; labels change.

    The queue of "fast local moving" (Traag, Waltman and van Eck 2019): all nodes in this order,
    then only neighbours of what moved. Labels are below n; returns how many moves were made.
    Unless communities may be emptied, the last node of each stays.
    """
    n_nodes = len(labels)
    penalty = resolution / max(graph.total, 1e-300)
    volumes = np.zeros(n_nodes)
    sizes = np.zeros(n_nodes, np.int32)
    for node in range(n_nodes):
        volumes[labels[node]] += graph.strengths[node]
        sizes[labels[node]] += 1
    links = np.zeros(n_nodes)  # weight from the node at hand into each community
    touched = np.empty(n_nodes, np.int32)
    queue = order.copy()
    waiting = np.ones(n_nodes, np.bool_)
    head, n_waiting, n_moves = 0, n_nodes, 0
    while n_waiting:
        node = queue[head]
        head = head + 1 if head + 1 < n_nodes else 0
        n_waiting -= 1
        waiting[node] = False
        own, strength = labels[node], graph.strengths[node]
        if sizes[own] == 1 and not may_empty:
            continue
        n_touched = 0
        for edge in range(graph.indptr[node], graph.indptr[node + 1]):
            community = labels[graph.indices[edge]]
            if links[community] == 0.0:
                touched[n_touched] = community
                n_touched += 1
            links[community] += graph.weights[edge]
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
        for edge in range(graph.indptr[node], graph.indptr[node + 1]):
            neighbour = graph.indices[edge]
            if not waiting[neighbour] and labels[neighbour] != best:
                waiting[neighbour] = True
                tail = head + n_waiting
                queue[tail if tail < n_nodes else tail - n_nodes] = neighbour
                n_waiting += 1
    return n_moves


@numba.njit(cache=True, nogil=True)
def connected_pieces(
    graph: LevelGraph, labels: Labels, order: NDArray[np.int32], resolution: float
) -> Labels:
    """Split each community into well-linked, connected pieces: labels (n,), below n.

    The refinement of Leiden (Traag, Waltman and van Eck 2019), greedy instead of random: every
    node starts alone and, if still alone at its turn, joins the piece of its own community that
    gains most.
    """
    n_nodes = len(labels)
    penalty = resolution / max(graph.total, 1e-300)
    pieces = np.arange(n_nodes).astype(np.int32)
    sizes = np.ones(n_nodes, np.int32)
    volumes = graph.strengths.copy()
    links = np.zeros(n_nodes)
    touched = np.empty(n_nodes, np.int32)
    for node in order:
        if sizes[node] != 1 or pieces[node] != node:
            continue
        n_touched = 0
        for edge in range(graph.indptr[node], graph.indptr[node + 1]):
            neighbour = graph.indices[edge]
            if labels[neighbour] != labels[node]:
                continue
            piece = pieces[neighbour]
            if links[piece] == 0.0:
                touched[n_touched] = piece
                n_touched += 1
            links[piece] += graph.weights[edge]
        best, best_gain = node, SMALLEST_GAIN
        for piece in touched[:n_touched]:
            gain = links[piece] - penalty * graph.strengths[node] * volumes[piece]
            links[piece] = 0.0
            if gain > best_gain:
                best, best_gain = piece, gain
        if best != node:
            pieces[node] = best
            sizes[best] += 1
            sizes[node] = 0
            volumes[best] += graph.strengths[node]
    return pieces
