"""Moves of single nodes that raise modularity, and the refinement of a partition by them.

Modularity at resolution γ (Reichardt and Bornholdt 2006), here without its constant factor:
Q = Σ_c (w_c − γ vol_c² / 2 vol), w_c the weight of the edges inside community c, vol_c the sum of
its strengths, vol the sum of all strengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import (
    ROUNDING,
    Labels,
    LevelGraph,
    ask_for_groups,
    members_of,
    summed,
)
from stream_icd.graphs.compiled import FAR, compiled, prefetch
from stream_icd.graphs.in_threads import LARGE, in_parts, in_threads, keep_threads

Floats = NDArray[np.float64]

PARTS = 32
"""One in this many nodes of a large graph is visited at once. With 4 or 64, communities are the
same within the spread of seeds; fewer take more visits, more keep threads waiting."""

DONE, WAITS, VISITED = 0, 1, 2
"""States of nodes moved at once; VISITED: is in the part of the queue that is visited now."""

LINKS, VOLUME = 0, 1
"""Columns of the totals of a group, side by side in memory: both are read at once."""


def move_nodes(
    graph: LevelGraph,
    labels: Labels,
    order: Labels,
    resolution: float,
    may_empty: bool = True,
    threads: int = 1,
) -> int:
    """Move nodes to the neighbouring community of largest gain, in place, until none gains.

    First all nodes in this order, then only neighbours of moved nodes ("fast local moving": Traag,
    Waltman and van Eck 2019). In a graph of at least `LARGE` nodes, many are moved at once, all
    from the same state, as long as many wait. The result is the same on any number of threads.

    Labels are below n; returns the number of moves. Unless communities may be emptied, the last
    node of each stays, and nodes move one after the other.
    """
    n_moves, queue = 0, order
    if graph.n_nodes >= LARGE and may_empty:
        n_moves, queue = _move_at_once(graph, labels, order, resolution, threads)
    return n_moves + int(_move_in_turn(graph, labels, queue, resolution, may_empty))


def _move_at_once(
    graph: LevelGraph, labels: Labels, order: Labels, resolution: float, threads: int
) -> tuple[int, Labels]:
    """Move nodes in parts of the queue, those of one part all from the same state, in place.

    Each round visits the nodes that wait, as long as they fill a part and are fewer than two rounds
    before: two nodes that move at once can take each other's place for ever. (From single nodes,
    more wait after the second round than after the first.) Returns the number of moves, and the
    nodes that still wait.
    """
    n_nodes, n_moves, queue = graph.n_nodes, 0, order
    n_before = n_last = n_nodes + 1
    at_once = -(-n_nodes // PARTS)
    volumes = summed(graph.strengths, labels, n_nodes)
    targets, states = np.empty(n_nodes, np.int32), np.full(n_nodes, WAITS, np.int8)
    # What each of the threads at work writes to: links to communities, and their list.
    unused = [(np.zeros(n_nodes), np.empty(n_nodes + 1, np.int32)) for _ in range(threads)]

    def decide(first: int, end: int) -> None:
        own = unused.pop()
        _decide(graph, labels, volumes, *own, states, visited, targets, resolution, first, end)
        unused.append(own)

    with keep_threads(threads):
        while at_once <= len(queue) < n_before:
            n_before, n_last = n_last, len(queue)
            for start in range(0, len(queue), at_once):
                visited = queue[start : start + at_once]
                states[visited] = VISITED
                bounds = [len(visited) * part // threads for part in range(threads + 1)]
                in_threads(decide, bounds, threads)
                n_moves += _apply(graph.strengths, labels, volumes, states, visited, targets)
            queue = order[states[order] == WAITS]
    return n_moves, queue


@compiled()
def _decide(
    graph: LevelGraph,
    labels: Labels,
    volumes: Floats,
    links: Floats,
    touched: Labels,
    states: NDArray[np.int8],
    visited: Labels,
    targets: Labels,
    resolution: float,
    first: int,
    end: int,
) -> None:
    """Write the community of largest gain of each of visited[first:end] to `targets`.

    Neighbours of nodes that will move wait from now on. Several threads may write that at once.
    """
    indptr, indices, weights, strengths, total = graph
    penalty = resolution / max(total, 1e-300)
    visits = visited[:end]
    for turn in range(first, end):
        node = visits[turn]
        if len(labels) >= FAR and turn + 8 < end:
            ask_for_groups(indptr, indices, weights, visits, turn, labels)
            prefetch(strengths, visits[turn + 8])
            later = visits[turn + 2]
            for entry in range(indptr[later], indptr[later + 1]):
                prefetch(volumes, labels[indices[entry]])
                prefetch(links, labels[indices[entry]])
        own, strength, n_touched = labels[node], strengths[node], 0
        for entry in range(indptr[node], indptr[node + 1]):
            community = labels[indices[entry]]
            touched[n_touched] = community
            n_touched += links[community] == 0.0
            links[community] += weights[entry]
        best = own
        best_gain = links[own] - penalty * strength * (volumes[own] - strength) + ROUNDING
        for community in touched[:n_touched]:
            gain = links[community] - penalty * strength * volumes[community]
            links[community] = 0.0
            if gain > best_gain and community != own:
                best, best_gain = community, gain
        targets[turn] = best
        if best != own:
            for entry in range(indptr[node], indptr[node + 1]):
                neighbour = indices[entry]
                if labels[neighbour] != best or states[neighbour] == VISITED:  # may leave it now
                    states[neighbour] = WAITS


@compiled()
def _apply(
    strengths: Floats,
    labels: Labels,
    volumes: Floats,
    states: NDArray[np.int8],
    visited: Labels,
    targets: Labels,
) -> int:
    """Move the visited nodes to their targets, in place; returns how many move."""
    n_moves = 0
    for turn, node in enumerate(visited):
        own, best = labels[node], targets[turn]
        if states[node] == VISITED:
            states[node] = DONE
        if best != own:
            labels[node] = best
            volumes[own] -= strengths[node]
            volumes[best] += strengths[node]
            n_moves += 1
    return n_moves


@compiled()
def _move_in_turn(
    graph: LevelGraph, labels: Labels, first: Labels, resolution: float, may_empty: bool
) -> int:
    """Move one node after the other: these first, then neighbours of moved nodes."""
    n_nodes, (indptr, indices, weights, strengths, total) = len(labels), graph
    penalty = resolution / max(total, 1e-300)
    totals, sizes = _totals_and_sizes(strengths, labels)
    touched = np.empty(n_nodes + 1, np.int32)
    queue, waiting = np.zeros(n_nodes, np.int32), np.zeros(n_nodes, np.bool_)
    queue[: len(first)], waiting[first] = first, True
    head, n_waiting, n_moves = 0, len(first), 0
    while n_waiting:
        node = queue[head]
        if n_nodes >= FAR and head + 8 < n_nodes:
            ask_for_groups(indptr, indices, weights, queue, head, labels)
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
        best, n_touched = own, 0
        for entry in range(indptr[node], indptr[node + 1]):
            community = labels[indices[entry]]
            touched[n_touched] = community  # without a branch, which the processor would guess
            n_touched += totals[community, LINKS] == 0.0
            totals[community, LINKS] += weights[entry]
        best_gain = (
            totals[own, LINKS] - penalty * strength * (totals[own, VOLUME] - strength) + ROUNDING
        )
        for rank in range(n_touched):
            community = touched[rank]
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

    The same on any number of threads: communities do not touch each other's pieces. Those of one
    community are visited one after the other, since what they read is close together in memory.
    """
    members, starts = members_of(labels[order], int(labels.max()) + 1)
    visits, pieces = order[members], np.arange(graph.n_nodes, dtype=np.int32)
    totals, sizes = _totals_and_sizes(graph.strengths, pieces)

    def join(first: int, end: int) -> None:
        own = visits[starts[first] : starts[end]]
        _join(graph, labels, own, resolution, pieces, totals, sizes)

    in_parts(join, np.bincount(labels, np.diff(graph.indptr)), threads)
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
) -> None:
    """Join these nodes, all those of some communities, to pieces, in place."""
    n_nodes, (indptr, indices, weights, strengths, total) = len(labels), graph
    penalty = resolution / max(total, 1e-300)
    touched = np.empty(n_nodes + 1, np.int32)
    for turn, node in enumerate(order):
        if n_nodes >= FAR:
            ask_for_groups(indptr, indices, weights, order, turn, labels)
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
        strength, best, best_gain = strengths[node], node, ROUNDING
        for rank in range(n_touched):
            piece = touched[rank]
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
