"""Change a partition so that it has exactly K communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.description_length.found import Found
from stream_icd.bp.multilevel.level_graph import (
    Labels,
    LevelGraph,
    coarsen,
    compact,
    within_groups,
)
from stream_icd.bp.multilevel.local_moves import move_nodes
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.planted_partition.likelihood import groups_of
from stream_icd.graphs.compiled import compiled

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

FAR_FEWER, COARSER = 1.5, 2.0
"""If modularity finds this many times K communities or more, a resolution lower by this factor is
tried too. On validation graphs the merged communities of half the resolution were often better,
those of a quarter seldom."""

FINER = 2.0
"""Factor by which the resolution grows at each step of the cutting, until there are K pieces."""

FAR = 64.0
"""If K is more than this many times the number of pieces, the resolution grows at once by half that
ratio: the number of pieces grows no faster than the resolution."""

FINEST = 2.0**12
"""Maximum resolution, in multiples of the initial one; beyond it, cut into single nodes."""


def exactly(graph: LevelGraph, found: Found, n_communities: int, rng: np.random.Generator) -> Found:
    """Change the partition so that it has exactly K communities.

    Merging one by one cannot correct its first merges. So if K is `FAR_FEWER` than modularity
    found, the partition at half the resolution, which has fewer communities, is changed too. The
    result is the one of higher modularity at the resolution of `found`.
    """
    labels = to_exactly_k(graph, found.labels, n_communities, found.resolution, rng)
    if found.believed:
        return found._replace(labels=labels)
    _settle(graph, labels, found.resolution, rng)
    start, n_found = compact(found.labels)
    if n_found >= FAR_FEWER * n_communities:
        coarser = found.resolution / COARSER
        other = maximise_modularity(graph, coarser, rng, start)
        other = to_exactly_k(graph, other, n_communities, coarser, rng)
        _settle(graph, other, found.resolution, rng)
        labels = max(labels, other, key=lambda one: _modularity(graph, one, found.resolution))
    return found._replace(labels=labels)


def _settle(graph: LevelGraph, labels: Labels, resolution: float, rng: np.random.Generator) -> None:
    """Move single nodes, in place, without emptying a community."""
    order = rng.permutation(graph.n_nodes).astype(np.int32)
    move_nodes(graph, labels, order, resolution, False)


def _modularity(graph: LevelGraph, labels: Labels, resolution: float) -> float:
    groups = groups_of(graph, labels, int(labels.max()) + 1)
    expected = resolution * groups.volumes**2 / max(graph.total, 1e-300)
    return float((2 * groups.within - expected).sum())


def to_exactly_k(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    rng: np.random.Generator,
) -> Labels:
    """The partition with exactly n_communities (1..n): merge if there are more, otherwise cut.

    Merging joins the communities whose union loses least modularity. Cutting finds communities
    inside each community, then joins those that lose least until n_communities are left.
    """
    labels, found = compact(labels)
    if found < n_communities:
        pieces = _cut(graph, labels, n_communities, resolution, rng)
        parent_of_piece = np.empty(pieces.max() + 1, np.int32)
        parent_of_piece[pieces] = labels
        labels = _merge(graph, pieces, n_communities, resolution, parent_of_piece)
    everywhere = np.zeros(labels.max() + 1, np.int32)
    return _merge(graph, labels, n_communities, resolution, everywhere)


def _cut(
    graph: LevelGraph, labels: Labels, at_least: int, resolution: float, rng: np.random.Generator
) -> Labels:
    """Cut the communities into at least the requested number of pieces."""
    inside = within_groups(graph, labels)
    finer = resolution
    while finer < FINEST * resolution:
        pieces = maximise_modularity(inside, finer, rng)
        if pieces.max() + 1 >= at_least:
            return pieces
        lacking = at_least / (pieces.max() + 1)
        finer *= lacking / 2 if lacking > FAR else FINER
    return np.arange(graph.n_nodes, dtype=np.int32)


def _merge(
    graph: LevelGraph, labels: Labels, n_communities: int, resolution: float, parents: Labels
) -> Labels:
    """Merge communities of equal parent while there are more than n_communities.

    parents (K,): a label for each community. Each round makes the better half of the merges still
    needed, so the last merges, where the choice matters most, are made one by one.
    """
    coarse = coarsen(graph, labels, len(parents))
    while (excess := coarse.n_nodes - n_communities) > 0:
        sources, targets, gains = _candidate_merges(coarse, resolution, parents)
        best = np.argsort(-gains, kind="stable")
        into = apply_merges(sources[best], targets[best], (excess + 1) // 2, coarse.n_nodes)
        groups, n_groups = compact(into.astype(np.int32))
        if n_groups == coarse.n_nodes:
            break
        merged_parents = np.empty(n_groups, np.int32)
        merged_parents[groups] = parents
        coarse, parents = coarsen(coarse, groups, n_groups), merged_parents
        labels = groups[labels]
    return labels


def _candidate_merges(
    coarse: LevelGraph, resolution: float, parents: Labels
) -> tuple[Ids, Ids, Floats]:
    """Pairs to merge: each community with its best linked one, and unlinked ones of like volume."""
    rows, columns, gains = _best_links(coarse, resolution, parents)
    by_volume = np.lexsort((coarse.strengths, parents))
    left, right = by_volume[:-1], by_volume[1:]
    together = parents[left] == parents[right]
    left, right = left[together], right[together]
    return (
        np.concatenate([rows, left]),
        np.concatenate([columns, right]),
        np.concatenate([gains, -_penalty(coarse, resolution, left, right)]),
    )


def _penalty(coarse: LevelGraph, resolution: float, rows: Ids, columns: Ids) -> Floats:
    products = coarse.strengths[rows] * coarse.strengths[columns]
    penalty: Floats = resolution * products / max(coarse.total, 1e-300)
    return penalty


@compiled()
def _best_links(coarse: LevelGraph, resolution: float, parents: Labels) -> tuple[Ids, Ids, Floats]:
    """The best partner of each community that is linked to others of the same parent."""
    n_nodes, n_found, total = len(parents), 0, max(coarse.total, 1e-300)
    rows, columns = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    gains = np.empty(n_nodes)
    for row in range(n_nodes):
        best, best_gain = -1, 0.0
        for entry in range(coarse.indptr[row], coarse.indptr[row + 1]):
            column = coarse.indices[entry]
            if parents[column] != parents[row]:
                continue
            product = coarse.strengths[row] * coarse.strengths[column]
            gain = coarse.weights[entry] - resolution * product / total
            if best < 0 or gain > best_gain or (gain == best_gain and column < best):
                best, best_gain = column, gain
        if best >= 0:
            rows[n_found], columns[n_found], gains[n_found] = row, best, best_gain
            n_found += 1
    return rows[:n_found], columns[:n_found], gains[:n_found]


@compiled()
def apply_merges(sources: Ids, targets: Ids, at_most: int, n_nodes: int) -> Ids:
    """The target of each community: in this order, no source twice, no target already merged."""
    into = np.arange(n_nodes)
    is_target = np.zeros(n_nodes, np.bool_)
    n_merged = 0
    for rank in range(len(sources)):
        source, target = sources[rank], targets[rank]
        if n_merged == at_most:
            break
        if into[source] == source and into[target] == target and not is_target[source]:
            into[source] = target
            is_target[target] = True
            n_merged += 1
    return into
