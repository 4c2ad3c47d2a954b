"""Multi-level modularity: local moves of nodes, of pieces of communities, of merged pieces.

The scheme of the Leiden algorithm (Traag, Waltman and van Eck, "From Louvain to Leiden", 2019).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, coarsen, compact, finest_level
from stream_icd.bp.multilevel.local_moves import connected_pieces, move_nodes
from stream_icd.graphs.weights import comparable


def maximise_modularity(
    graph: LevelGraph,
    resolution: float,
    rng: np.random.Generator,
    start: Labels | None = None,
    iterations: int = 1,
    threads: int = 1,
) -> Labels:
    """A partition of high modularity at this resolution: labels (n,) int32, 0..K-1.

    Starts from single nodes, or from `start`. Each iteration starts from the last one's result; the
    search ends early when an iteration moves nothing. The same on any number of threads.
    """
    labels = np.arange(graph.n_nodes, dtype=np.int32) if start is None else start
    for _ in range(iterations):
        labels, moved = _one_iteration(graph, resolution, rng, labels, threads)
        if not moved:
            break
    return labels


def estimate_n_communities(adjacency: csr_array, seed: int = 0) -> int:
    """Estimate K as the number of communities found by maximising modularity with local moves.

    The estimate is fast and needs no prior knowledge. It has modularity's resolution limit:
    communities of far fewer than √2E edges are counted together, so the estimate is too low for a
    graph of many small communities. If you know K, give it.

    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> estimate_n_communities(csr_array(np.kron(np.eye(2), triangle)))
    2
    """
    rng = np.random.default_rng(seed)
    return int(maximise_modularity(finest_level(comparable(adjacency)), 1.0, rng).max()) + 1


def _one_iteration(
    finest: LevelGraph,
    resolution: float,
    rng: np.random.Generator,
    labels: Labels,
    threads: int,
) -> tuple[Labels, bool]:
    """One pass up all levels: returns labels of the finest level, and whether any node moved."""
    graph, piece_of_node, moved = finest, None, False
    while True:
        labels, _ = compact(labels)
        moved |= move_nodes(graph, labels, _order(graph, rng), resolution, threads=threads) > 0
        labels, n_communities = compact(labels)
        if n_communities == graph.n_nodes:
            break
        order = _order(graph, rng)
        pieces, n_pieces = compact(connected_pieces(graph, labels, order, resolution, threads))
        if n_pieces == graph.n_nodes:  # nothing left to join inside communities
            pieces, n_pieces = labels, n_communities
        community_of_piece = np.empty(n_pieces, np.int32)
        community_of_piece[pieces] = labels
        graph, labels = coarsen(graph, pieces, n_pieces, threads), community_of_piece
        piece_of_node = pieces if piece_of_node is None else pieces[piece_of_node]
    return (labels if piece_of_node is None else labels[piece_of_node]), moved


def _order(graph: LevelGraph, rng: np.random.Generator) -> Labels:
    return rng.permutation(graph.n_nodes).astype(np.int32)
