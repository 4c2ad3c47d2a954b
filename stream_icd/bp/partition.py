"""Partitions of one graph: how they are compared, cut, and brought to exactly K communities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_icd.arrays import Labels, n_distinct
from stream_icd.bp.agglomeration import agglomerate, agglomerate_to
from stream_icd.bp.level_graph import LevelGraph, compact, links, summed, within_groups
from stream_icd.bp.likelihood import modularity_of
from stream_icd.bp.modularity import connected_pieces, maximise_modularity, move_nodes, refined
from stream_icd.quality.partition import bits_per_edge

COARSER = 2.0
"""Factor between two resolutions, downwards, and the least one where pieces are too few."""


class Partition(NamedTuple):
    """A partition and its description length."""

    labels: Labels  # (n,), 0..K-1, none empty
    bits: float  # `quality.partition`, bits per edge
    mixing: float  # μ, the fraction of the edge weight between communities
    resolution: float = 1.0  # γ at which local moves found it
    believed: bool = False  # True if these are the most probable communities of beliefs


def measured(graph: LevelGraph, labels: Labels, resolution: float = 1.0) -> Partition:
    """The partition that these labels make of the nodes on any level, (n,), not negative.

    Some of 0..max may be unused. O(E), several times as fast as from the adjacency.
    """
    labels, k = compact(labels)
    if not graph.n_edges:
        return Partition(labels, 0.0, 0.0, resolution)
    between = summed(links(graph, labels, False), labels, k)
    volumes = summed(graph.strengths, labels, k)
    sizes = summed(graph.n_linked, labels, k)
    bits = bits_per_edge(volumes, volumes - between, sizes, graph.n_edges)
    mixing = max(float(between.sum()) / graph.total, 0.0)
    return Partition(labels, bits, mixing, resolution)


def split_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    mixing: float,
    rng: np.random.Generator,
) -> Labels:
    """Split the communities 0..n_communities-1 if the edges support it: labels (n,).

    Each community is cut into well-linked pieces of such pieces, which are united while that
    shortens the description.

    The largest piece of each keeps its label; the others are numbered from n_communities on.
    """
    first, coarse, parents = refined(graph, labels, resolution, rng)
    united = connected_pieces(coarse, parents, resolution, rng)
    pieces = agglomerate(coarse, united, parents, mixing)[first]
    sizes = np.bincount(pieces)
    names = np.empty(len(sizes), np.int32)
    names[pieces] = labels
    order = np.lexsort((-sizes, names))  # by community, the largest first, then as numbered
    others = order[1:][names[order[1:]] == names[order[:-1]]]
    names[others] = n_communities + np.arange(len(others), dtype=np.int32)
    return names[pieces]


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
    so if there are too many communities, those at a lower resolution are changed too, and the
    partition of higher modularity is the result.
    """
    if believed:
        return _with_k(graph, labels, n_communities, resolution, rng)
    starts = [(labels, resolution)]
    if n_distinct(labels) > n_communities:
        lower = resolution / COARSER
        starts.append((maximise_modularity(graph, lower, rng, compact(labels)[0]), lower))
    exact = [_with_k(graph, start, n_communities, gamma, rng) for start, gamma in starts]
    for one in exact:
        move_nodes(graph, one, resolution, rng, may_empty=False)
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
        pieces = _cut(within_groups(graph, labels), n_communities, resolution, rng)
        labels = agglomerate_to(graph, pieces, n_communities, resolution, labels)
    return agglomerate_to(graph, labels, n_communities, resolution)


def _cut(inside: LevelGraph, at_least: int, resolution: float, rng: np.random.Generator) -> Labels:
    """Cut the communities into at least the requested number of pieces.

    The number of pieces grows no faster than the resolution, so that this can take large steps. At
    γ = 2E, no edge of weight 1 is worth a community of its ends.

    inside: the edges inside communities.
    """
    while resolution < inside.total:
        pieces = maximise_modularity(inside, resolution, rng)
        n_pieces = int(pieces.max()) + 1
        if n_pieces >= at_least:
            return pieces
        resolution *= max(at_least / n_pieces / COARSER, COARSER)
    return np.arange(inside.n_nodes, dtype=np.int32)
