"""Splits: communities that the current edges divide into two or more.

Local moves cut each community into pieces, using only the edges inside it. Pieces of one community
are joined again, in order of decreasing gain, while this describes the graph in fewer bits: it
loses likelihood, but saves encoding which node is in which piece.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.description_length.exact_k import apply_merges
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, coarsen, compact, within_groups
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.planted_partition.likelihood import (
    Floats,
    Groups,
    groups_of,
    label_code,
    log_binomial,
    merge_gain,
)
from stream_icd.graphs.compiled import compiled

MOST_ROUNDS = 100
"""Rounds in which pieces are joined. Each joins about half of those that can be: all of a graph of
millions of nodes in some twenty. Only around a hub they are joined one a round."""


class Pieces(NamedTuple):
    """Pieces of communities.

    labels: (n,) the piece of each node, 0..K-1; groups: of the pieces.
    parents: (K,) the community that each is a piece of.
    """

    labels: Labels
    groups: Groups
    parents: Labels


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
    of_node, n_pieces = compact(maximise_modularity(inside, resolution, rng))
    parents = np.empty(n_pieces, np.int32)
    parents[of_node] = labels
    pieces = Pieces(of_node, groups_of(graph, of_node, n_pieces), parents)
    coarse = coarsen(inside, of_node, n_pieces)
    joined = _joined_pieces(coarse, pieces, mixing, label_code(n_communities))
    return _piece_names(joined, n_communities)[joined.labels]


def _joined_pieces(coarse: LevelGraph, pieces: Pieces, mixing: float, price: float) -> Pieces:
    """Join pieces of the same community, best first, while this describes the graph better.

    coarse: the pieces as nodes, with only the edges inside communities.
    price:  nats to name a community, saved by joining two besides encoding which nodes are in
        which.

    A community whose pieces are not all joined after `MOST_ROUNDS` is one piece.
    """
    unsettled = pieces.parents[:0]
    for _ in range(MOST_ROUNDS):
        partners, gains = _best_unions(coarse, pieces.groups, pieces.parents, mixing, price)
        willing = np.flatnonzero(partners >= 0)
        if not len(willing):
            return pieces
        best = willing[np.argsort(-gains[willing], kind="stable")]
        united = apply_merges(best, partners[best], (len(best) + 1) // 2, coarse.n_nodes)
        unsettled = pieces.parents[willing]
        pieces, coarse = _joined(pieces, coarse, united.astype(np.int32))
    into = np.arange(coarse.n_nodes, dtype=np.int32)
    whole = np.isin(pieces.parents, unsettled)
    into[whole] = coarse.n_nodes + pieces.parents[whole]
    return _joined(pieces, coarse, into)[0]


def _joined(pieces: Pieces, coarse: LevelGraph, into: Labels) -> tuple[Pieces, LevelGraph]:
    """The pieces, and their graph, after those with the same entry in `into` were joined."""
    joined, n_joined = compact(into)
    groups = _united(pieces.groups, coarse, joined, n_joined)
    parents = np.empty(n_joined, np.int32)
    parents[joined] = pieces.parents
    return Pieces(joined[pieces.labels], groups, parents), coarsen(coarse, joined, n_joined)


@compiled()
def _best_unions(
    coarse: LevelGraph,
    groups: Groups,
    parents: Labels,
    mixing: float,
    price: float,
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
            gain = merge_gain(groups, piece, other, coarse.weights[entry], coarse.total, mixing)
            gain += log_binomial(groups.sizes[piece], groups.sizes[other]) + price
            if gain > gains[piece]:
                partners[piece], gains[piece] = other, gain
        if piece != main:
            gain = merge_gain(groups, piece, main, to_main, coarse.total, mixing)
            gain += log_binomial(groups.sizes[piece], groups.sizes[main]) + price
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


def _piece_names(pieces: Pieces, n_communities: int) -> Labels:
    """The label of each piece, (K,): its community's if it is the largest of it, else a new one."""
    names, sizes = pieces.parents.copy(), pieces.groups.sizes
    order = np.lexsort((-sizes, names))  # by community, the largest first, then as numbered
    others = order[np.diff(names[order], prepend=-1) == 0]
    names[others] = n_communities + np.arange(len(others), dtype=np.int32)
    return names
