"""Change a partition so that it has exactly K communities."""

from __future__ import annotations

import numpy as np

from stream_icd.arrays import n_distinct
from stream_icd.bp.description_length.agglomeration import agglomerate_to
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, compact, within_groups
from stream_icd.bp.multilevel.local_moves import move_nodes
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.planted_partition.likelihood import modularity_of


def exactly(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    rng: np.random.Generator,
    believed: bool,
) -> Labels:
    """The partition with exactly n_communities (1..n): unite if there are more, otherwise cut.

    Cutting finds communities inside each community, and unites them until K are left.

    Unless beliefs decided, local moves that keep K follow. Uniting cannot correct its first steps,
    so if there are too many communities, those at half the resolution are changed too, and the
    partition of higher modularity is the result.
    """
    if believed:
        return _with_k(graph, labels, n_communities, resolution, rng)
    starts = [(labels, resolution)]
    if n_distinct(labels) > n_communities:
        fewer = maximise_modularity(graph, resolution / 2, rng, compact(labels)[0])
        starts.append((fewer, resolution / 2))
    exact = [_with_k(graph, start, n_communities, gamma, rng) for start, gamma in starts]
    for one in exact:
        move_nodes(graph, one, rng.permutation(len(one)).astype(np.int32), resolution, False)
    return max(exact, key=lambda one: modularity_of(graph, one, resolution))


def _with_k(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    rng: np.random.Generator,
) -> Labels:
    labels, found = compact(labels)
    if found < n_communities:
        pieces = _cut(graph, labels, n_communities, resolution, rng)
        labels = agglomerate_to(graph, pieces, n_communities, resolution, labels)
    return agglomerate_to(graph, labels, n_communities, resolution)


def _cut(
    graph: LevelGraph, labels: Labels, at_least: int, resolution: float, rng: np.random.Generator
) -> Labels:
    """Cut the communities into at least the requested number of pieces.

    The number of pieces grows no faster than the resolution, so that this can take large steps. At
    γ = 2E, no edge of weight 1 is worth a community of its ends.
    """
    inside = within_groups(graph, labels)
    finer = resolution
    while finer < graph.total:
        pieces = maximise_modularity(inside, finer, rng)
        n_pieces = int(pieces.max()) + 1
        if n_pieces >= at_least:
            return pieces
        finer *= max(at_least / n_pieces / 2, 2.0)
    return np.arange(graph.n_nodes, dtype=np.int32)
