"""Splits: communities that the current edges divide into two or more.

Local moves cut each community into pieces, using only the edges inside it. Pieces of one community
are joined again, in order of decreasing gain, while this describes the graph in fewer bits: it
loses likelihood, but saves encoding which node is in which piece.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.exact_k import apply_merges
from stream_icd.bp.level_graph import Labels, LevelGraph, coarsen, compact, within_groups
from stream_icd.bp.lift import (
    Floats,
    Groups,
    choices,
    gain_of_union,
    groups_of,
    naming,
)
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.graphs.compiled import compiled


def split_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    mixing: float,
    rng: np.random.Generator,
) -> Labels:
    """Split the communities 0..n_communities-1 if the edges support it: labels (n,).

    The largest piece of each keeps its label; the others are numbered from n_communities on.
    """
    inside = within_groups(graph, labels)
    pieces, n_pieces = compact(maximise_modularity(inside, resolution, rng))
    groups = groups_of(graph, pieces, n_pieces)
    parents = np.empty(n_pieces, np.int32)
    parents[pieces] = labels
    coarse, price = coarsen(inside, pieces, n_pieces), naming(n_communities)
    while True:
        partners, gains = _best_unions(coarse, groups, parents, mixing, price)
        willing = np.flatnonzero(partners >= 0)
        if not len(willing):
            break
        best = willing[np.argsort(-gains[willing], kind="stable")]
        into = apply_merges(best, partners[best], (len(best) + 1) // 2, coarse.n_nodes)
        joined, n_joined = compact(into.astype(np.int32))
        groups = _united(groups, coarse, joined, n_joined)
        parents_of_joined = np.empty(n_joined, np.int32)
        parents_of_joined[joined] = parents
        coarse, parents = coarsen(coarse, joined, n_joined), parents_of_joined
        pieces = joined[pieces]
    return _named(parents, groups.sizes, n_communities)[pieces]


@compiled()
def _best_unions(
    coarse: LevelGraph, groups: Groups, parents: Labels, mixing: float, price: float
) -> tuple[NDArray[np.int64], Floats]:
    """The best partner of each piece, linked to it or the largest of its parent; -1: none."""
    n_pieces = len(parents)
    partners, gains = np.full(n_pieces, -1), np.zeros(n_pieces)
    largest = np.full(parents.max() + 1, -1)
    for piece, parent in enumerate(parents):
        if largest[parent] < 0 or groups.sizes[piece] > groups.sizes[largest[parent]]:
            largest[parent] = piece
    for piece in range(n_pieces):
        main, to_main = largest[parents[piece]], 0.0
        for entry in range(coarse.indptr[piece], coarse.indptr[piece + 1]):
            other = coarse.indices[entry]
            if other == main:
                to_main = coarse.weights[entry]
            gain = gain_of_union(groups, piece, other, coarse.weights[entry], coarse.total, mixing)
            gain += choices(groups.sizes[piece], groups.sizes[other]) + price
            if gain > gains[piece]:
                partners[piece], gains[piece] = other, gain
        if piece != main:
            gain = gain_of_union(groups, piece, main, to_main, coarse.total, mixing)
            gain += choices(groups.sizes[piece], groups.sizes[main]) + price
            if gain > gains[piece]:
                partners[piece], gains[piece] = main, gain
    return partners, gains


def _united(groups: Groups, coarse: LevelGraph, joined: Labels, n_joined: int) -> Groups:
    """The groups after pieces were joined: edges between them now count as inside."""
    between = groups_of(coarse, joined, n_joined).within
    within, volumes, sizes = (
        np.bincount(joined, counts, n_joined).astype(np.float64) for counts in groups
    )
    return Groups(within + between, volumes, sizes)


def _named(parents: Labels, sizes: Floats, n_communities: int) -> Labels:
    """The label of each piece, (n_pieces,)."""
    order = np.lexsort((-sizes, parents))  # by parent, the largest first, then as numbered
    is_first = np.diff(parents[order], prepend=-1) > 0
    others = order[~is_first]
    names = parents.copy()
    names[others] = n_communities + np.arange(len(others), dtype=np.int32)
    return names
