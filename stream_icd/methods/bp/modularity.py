"""Multi-level modularity: local moves of nodes, of pieces of communities, of merged pieces.

The scheme of the Leiden algorithm (Traag, Waltman and van Eck, "From Louvain to Leiden", 2019).
Modularity at resolution γ (Reichardt and Bornholdt 2006), here without its constant factor:
Q = Σ_c (w_c − γ vol_c² / 2 vol), w_c the weight of the edges inside community c, vol_c the sum of
its strengths, vol the sum of all strengths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import (
    FAR,
    LARGE,
    compiled,
    in_parts,
    in_threads,
    n_threads,
    prefetch,
    uninterrupted,
    unsigned,
)
from stream_icd.methods.bp.level_graph import (
    ROUNDING,
    LevelGraph,
    coarsen,
    compact,
    finest_level,
    members_of,
    summed,
)
from stream_icd.methods.graphs.weights import comparable

_PARTS = 32
"""One in this many nodes of a large graph is visited at once. With 4 or 64, communities are the
same within the spread of seeds; fewer take more visits, more keep threads waiting."""

_DONE, _WAITS, _VISITED = 0, 1, 2
"""States of nodes moved at once; VISITED: is in the part of the queue that is visited now."""

_LINKS, _VOLUME = 0, 1
"""Columns of the totals of a group, side by side in memory: both are read at once."""


class _AtOnce(NamedTuple):
    """What threads that move nodes at once share, all (n,)."""

    labels: Labels
    volumes: Floats
    states: NDArray[np.int8]
    targets: Labels  # the community that each of the visited nodes moves to


def maximise_modularity(
    graph: LevelGraph,
    resolution: float,
    rng: np.random.Generator,
    start: Labels | None = None,
    iterations: int = 1,
) -> Labels:
    """A partition of high modularity at this resolution: labels (n,) int32, 0..K-1.

    Starts from single nodes, or from `start`; the search ends when an iteration moves nothing.
    """
    labels = np.arange(graph.n_nodes, dtype=np.int32) if start is None else start
    for _ in range(iterations):
        labels, moved = _one_iteration(graph, resolution, rng, labels)
        if not moved:
            break
    return labels


@uninterrupted()
def estimate_n_communities(adjacency: csr_array, seed: int = 0) -> int:
    """K, the number of communities of high modularity.

    Modularity counts communities of far fewer than √2E edges together, so the estimate is too low
    for a graph of many small communities.

    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> estimate_n_communities(csr_array(np.kron(np.eye(2), triangle)))
    2
    """
    rng = np.random.default_rng(seed)
    return int(maximise_modularity(finest_level(comparable(adjacency)), 1.0, rng).max()) + 1


def _one_iteration(
    graph: LevelGraph, resolution: float, rng: np.random.Generator, labels: Labels
) -> tuple[Labels, bool]:
    """One pass up all levels: labels of the finest level, and whether any node moved."""
    piece_of_node, moved = None, False
    while True:
        labels, _ = compact(labels)
        moved |= move_nodes(graph, labels, resolution, rng) > 0
        labels, n_communities = compact(labels)
        if n_communities == graph.n_nodes:
            break
        pieces, coarse, of_pieces = refined(graph, labels, resolution, rng)
        if coarse.n_nodes == graph.n_nodes:  # nothing left to join inside communities
            pieces, coarse = labels, coarsen(graph, labels, n_communities)
            of_pieces = np.arange(n_communities, dtype=np.int32)
        graph, labels = coarse, of_pieces
        piece_of_node = pieces if piece_of_node is None else pieces[piece_of_node]
    return (labels if piece_of_node is None else labels[piece_of_node]), moved


def move_nodes(
    graph: LevelGraph,
    labels: Labels,
    resolution: float,
    rng: np.random.Generator,
    may_empty: bool = True,
) -> int:
    """Move nodes to the neighbouring community of largest gain, in place, until none gains.

    First all nodes in random order, then only neighbours of moved nodes ("fast local moving":
    Traag, Waltman and van Eck 2019). In a graph of at least `LARGE` nodes, many are moved at once,
    all from the same state, as long as many wait.

    Labels are below n; returns the number of moves. Unless communities may be emptied, the last
    node of each stays, and nodes move one after the other.
    """
    n_moves, queue = 0, rng.permutation(graph.n_nodes).astype(np.int32)
    if graph.n_nodes >= LARGE and may_empty:
        n_moves, queue = _move_at_once(graph, labels, queue, resolution)
    return n_moves + int(_move_in_turn(graph, labels, queue, resolution, None, may_empty))


def connected_pieces(
    graph: LevelGraph, labels: Labels, resolution: float, rng: np.random.Generator
) -> Labels:
    """Split each community into well-linked, connected pieces: labels (n,), below n.

    The refinement of Leiden (Traag, Waltman and van Eck 2019), greedy instead of random: every
    node starts alone and, if still alone at its turn, joins the piece of its own community with
    the largest gain. The label of a piece is its first node.

    Each thread does some communities, which do not touch each other's pieces. The nodes of one
    community are visited one after the other, since what they read is close together in memory.
    """
    order = rng.permutation(graph.n_nodes).astype(np.int32)
    members, starts = members_of(labels[order], int(labels.max()) + 1)
    pieces = np.arange(graph.n_nodes, dtype=np.int32)

    def join(first: int, end: int) -> None:
        visits = order[members[starts[first] : starts[end]]]
        _move_in_turn(graph, pieces, visits, resolution, labels, True)

    in_parts(join, len(starts) - 1, lambda: np.bincount(labels, np.diff(graph.indptr)))
    return pieces


def refined(
    graph: LevelGraph, labels: Labels, resolution: float, rng: np.random.Generator
) -> tuple[Labels, LevelGraph, Labels]:
    """`connected_pieces`, 0..P-1, the graph of them, and the community of each, (P,)."""
    pieces, n_pieces = compact(connected_pieces(graph, labels, resolution, rng))
    communities = np.empty(n_pieces, np.int32)
    communities[pieces] = labels
    return pieces, coarsen(graph, pieces, n_pieces), communities


def _move_at_once(
    graph: LevelGraph, labels: Labels, order: Labels, resolution: float
) -> tuple[int, Labels]:
    """Move nodes in parts of the queue, those of one part all from the same state, in place.

    Each round visits the nodes that wait, as long as they fill a part and are fewer than two rounds
    before: two nodes that move at once can take each other's place for ever. (From single nodes,
    more wait after the second round than after the first.) Returns the number of moves, and the
    nodes that still wait.
    """
    n_nodes, threads, n_moves, queue = graph.n_nodes, n_threads(), 0, order
    n_before = n_last = n_nodes + 1
    at_once, states = -(-n_nodes // _PARTS), np.full(n_nodes, _WAITS, np.int8)
    volumes = summed(graph.strengths, labels, n_nodes)
    now = _AtOnce(labels, volumes, states, np.empty(n_nodes, np.int32))
    # What each of the threads at work writes to: links to communities, and their list.
    unused = [(np.zeros(n_nodes), np.empty(n_nodes + 1, np.int32)) for _ in range(threads)]

    def decide(first: int, end: int) -> None:
        own = unused.pop()
        _decide(graph, now, *own, visited, resolution, first, end)
        unused.append(own)

    def in_order_of_memory(first: int, end: int) -> Labels:
        return np.sort(queue[first:end])

    while at_once <= len(queue) < n_before:
        n_before, n_last = n_last, len(queue)
        for visited in in_threads(in_order_of_memory, [*range(0, len(queue), at_once), len(queue)]):
            _mark(states, visited)
            in_threads(decide, [len(visited) * part // threads for part in range(threads + 1)])
            n_moves += _apply(graph.strengths, now, visited)
        queue = order[states[order] == _WAITS]
    return n_moves, queue


@compiled()
def _mark(states: NDArray[np.int8], visited: Labels) -> None:
    """`states[visited] = VISITED`, without numpy's copy of the positions."""
    for node in visited:
        states[node] = _VISITED


@compiled()
def _decide(
    graph: LevelGraph,
    now: _AtOnce,
    links: Floats,
    touched: Labels,
    visited: Labels,
    resolution: float,
    first: int,
    end: int,
) -> None:
    """Write the community of largest gain of each of visited[first:end] to `targets`.

    Neighbours of nodes that will move wait from now on. Several threads may write that at once.
    """
    labels, (_, volumes, states, targets) = unsigned(now.labels), now
    indptr, indices, weights = unsigned(graph.indptr), unsigned(graph.indices), graph.weights
    strengths, penalty = graph.strengths, resolution / max(graph.total, 1e-300)
    touched, visits = unsigned(touched), unsigned(visited)[:end]
    for turn in range(first, end):
        node = visits[turn]
        if len(labels) >= FAR and turn + 8 < end:
            _ask_for_groups(indptr, indices, weights, visits, turn, labels)
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
                if labels[neighbour] != best or states[neighbour] == _VISITED:  # may leave it now
                    states[neighbour] = _WAITS


@compiled()
def _apply(strengths: Floats, now: _AtOnce, visited: Labels) -> int:
    """Move the visited nodes to their targets, in place; returns how many move."""
    n_moves, (labels, volumes, states, targets) = 0, now
    for turn, node in enumerate(visited):
        own, best = labels[node], targets[turn]
        if states[node] == _VISITED:
            states[node] = _DONE
        if best != own:
            labels[node] = best
            volumes[own] -= strengths[node]
            volumes[best] += strengths[node]
            n_moves += 1
    return n_moves


@compiled()
def _move_in_turn(
    graph: LevelGraph,
    groups: Labels,
    first: Labels,
    resolution: float,
    within: Labels | None,
    may_empty: bool,
) -> int:
    """Move one node after the other to another group, in place: these first; returns how many move.

    within: None: neighbours of moved nodes follow. Or the community of each node, to which its
        moves are limited: then each of these nodes moves once, if it is alone.

    Takes O(E log E): next to a hub, each of a long row of moves would visit all its neighbours
    again. Other graphs need less than this bound (real ones three to six visits of each edge).
    """
    n_nodes, (indptr, _, weights, strengths, _, total, _) = len(groups), graph
    indices, groups = unsigned(graph.indices), unsigned(groups)
    penalty = resolution / max(total, 1e-300)
    totals, sizes = np.zeros((n_nodes, 2)), np.zeros(n_nodes, np.int32)
    for node, group in enumerate(groups):
        totals[group, _VOLUME] += strengths[node]
        sizes[group] += 1
    touched = np.empty(n_nodes + 1, np.uint32)
    queue, waiting = unsigned(np.zeros(n_nodes, np.int32)), np.zeros(n_nodes, np.bool_)
    queue[: len(first)], waiting[first] = first, True
    head, n_waiting, n_moves, n_visits = 0, len(first), 0, 0
    most_visits = len(indices) * np.log2(len(indices) + 1)
    while n_waiting and n_visits <= most_visits:
        node = queue[head]
        if n_nodes >= FAR and n_waiting > 8 and head + 8 < n_nodes:
            _ask_for_groups(indptr, indices, weights, queue, head, groups)
            prefetch(strengths, queue[head + 8])
            later = queue[head + 2]
            for entry in range(indptr[later], indptr[later + 1]):
                prefetch(totals, groups[indices[entry]])
        head = head + 1 if head + 1 < n_nodes else 0
        n_waiting -= 1
        n_visits += indptr[node + 1] - indptr[node]
        waiting[node] = False
        own, strength = groups[node], strengths[node]
        if within is None:
            if sizes[own] == 1 and not may_empty:
                continue
        elif sizes[own] > 1:
            continue
        n_touched = 0
        for entry in range(indptr[node], indptr[node + 1]):
            neighbour = indices[entry]
            if within is not None and within[neighbour] != within[node]:
                continue
            group = groups[neighbour]
            touched[n_touched] = group  # without a branch, which the processor would guess
            n_touched += totals[group, _LINKS] == 0.0
            totals[group, _LINKS] += weights[entry]
        best, rest = own, totals[own, _VOLUME] - strength
        best_gain = totals[own, _LINKS] - penalty * strength * rest + ROUNDING
        for group in touched[:n_touched]:
            gain = totals[group, _LINKS] - penalty * strength * totals[group, _VOLUME]
            totals[group, _LINKS] = 0.0
            if gain > best_gain and group != own:
                best, best_gain = group, gain
        if best == own:
            continue
        groups[node] = best
        totals[own, _VOLUME] -= strength
        totals[best, _VOLUME] += strength
        sizes[own] -= 1
        sizes[best] += 1
        n_moves += 1
        if within is None:
            for entry in range(indptr[node], indptr[node + 1]):
                neighbour = indices[entry]
                if not waiting[neighbour] and groups[neighbour] != best:
                    waiting[neighbour] = True
                    tail = head + n_waiting
                    queue[tail if tail < n_nodes else tail - n_nodes] = neighbour
                    n_waiting += 1
    return n_moves


@compiled(inline="always")
def _ask_for_groups(
    indptr: Labels, indices: Labels, weights: Floats, visits: Labels, turn: int, groups: Labels
) -> None:
    """Ask for rows of nodes visited soon, and for their neighbours' groups (`prefetch`).

    Callers check `FAR` before: a call counts references to each array, which takes longer than a
    visit in a small graph.

    visits: nodes in the order of their visits; `turn`: the present one. What an earlier visit
    asked for is there by now, so each step can read where the next one leads.
    """
    if turn + 8 < len(visits):
        prefetch(indptr, visits[turn + 8])
        first = indptr[visits[turn + 6]]
        prefetch(indices, first)
        prefetch(weights, first)
        prefetch(weights, first + 8)  # a row of more takes two lines of a cache
        later = visits[turn + 4]
        prefetch(groups, later)
        for entry in range(indptr[later], indptr[later + 1]):
            prefetch(groups, indices[entry])
