"""Partitions of one graph: how they are compared, cut, and brought to exactly K communities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_icd.core.arrays import NOBODY, Ids, Labels, n_distinct
from stream_icd.core.compiled import compiled
from stream_icd.methods.bp.agglomeration import agglomerate, agglomerate_to
from stream_icd.methods.bp.level_graph import (
    LevelGraph,
    coarsen,
    compact,
    inside_of,
    links,
    members_of,
    summed,
    within_groups,
)
from stream_icd.methods.bp.likelihood import modularity_of
from stream_icd.methods.bp.modularity import (
    connected_pieces,
    maximise_modularity,
    move_nodes,
    refined,
)
from stream_icd.methods.bp.prior import Prior
from stream_icd.methods.quality.partition import CommunityWeights

COARSER = 2.0
"""Factor between two resolutions, downwards, and the least one where pieces are too few."""


class MeasuredPartition(NamedTuple):
    """A partition and its description length."""

    labels: Labels  # (n,), 0..K-1, none empty
    bits: float  # `quality.partition`, bits per edge
    mixing: float  # μ, the fraction of the edge weight between communities
    resolution: float = 1.0  # γ at which local moves found it
    believed: bool = False  # True if these are the most probable communities of beliefs
    beliefs: Prior | None = None  # these, if they are at hand


def measured(graph: LevelGraph, labels: Labels, resolution: float = 1.0) -> MeasuredPartition:
    """The partition that these labels make of the nodes on any level, (n,); some may be unused."""
    labels, k = compact(labels)
    if not graph.n_edges:
        return MeasuredPartition(labels, 0.0, 0.0, resolution)
    between = summed(links(graph, labels, False), labels, k)
    volumes = summed(graph.strengths, labels, k)
    sizes = summed(graph.n_linked, labels, k)
    weights = CommunityWeights(volumes, volumes - between)
    mixing = max(float(between.sum()) / graph.total, 0.0)
    return MeasuredPartition(
        labels, weights.bits_per_edge(sizes, graph.n_edges), mixing, resolution
    )


def split_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    mixing: float,
    rng: np.random.Generator,
) -> Labels:
    """Split the communities 0..n_communities-1 if the edges support it: labels (n,).

    Each is cut into well-linked pieces of such pieces, which are united while that shortens the
    description. The largest keeps its label; the others are numbered from n_communities on.
    """
    first, coarse, parents = refined(graph, labels, resolution, rng)
    united = connected_pieces(coarse, parents, resolution, rng)
    pieces = agglomerate(coarse, united, parents, mixing)[first]
    names: Labels = match_labels(pieces, labels, int(pieces.max()) + 1, n_communities)
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


def merged_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    remembered: Labels,
    n_remembered: int,
    mixing: float,
) -> Labels:
    """The community that each of 0..n_communities-1 is now part of, (n_communities,).

    Pairs are merged in order of decreasing gain, each community at most once. A merged pair takes
    the label of its remembered community (below n_remembered), else of the one with more nodes.
    There must be at least half as many edges between the two as one community of their size would
    have there, unless one is what is left of a remembered community that most nodes have left.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without a remembered community.
    """
    coarse = coarsen(graph, labels, n_communities)
    into: Labels = _merged(coarse, labels, remembered, n_remembered, mixing)
    return into


@compiled()
def _merged(
    coarse: LevelGraph, labels: Labels, remembered: Labels, n_remembered: int, mixing: float
) -> Labels:
    """The same, of the graph of the communities."""
    within, volumes, k = inside_of(coarse), coarse.strengths, len(coarse.strengths)
    sizes = np.bincount(labels, minlength=k)
    before = np.bincount(remembered[remembered >= 0], minlength=k)
    left_over = 2 * np.bincount(labels[labels == remembered], minlength=k) < before
    rows, columns = np.repeat(np.arange(k), np.diff(coarse.indptr)), coarse.indices.astype(np.int64)
    once = rows < columns
    rows, columns, between = rows[once], columns[once], coarse.weights[once]
    half_expected = np.sqrt(within[rows] * within[columns])
    alike = (half_expected > 0) & (between >= half_expected)
    may_merge = alike | left_over[rows] | left_over[columns]
    rows, columns, between = rows[may_merge], columns[may_merge], between[may_merge]
    lift, united = (1 - mixing) / mixing * coarse.total, volumes[rows] + volumes[columns]
    gains = (within[rows] + within[columns] + between) * np.log1p(lift / united)
    for ends in (rows, columns):
        gains -= within[ends] * np.log1p(lift / volumes[ends])
    into, free = np.arange(k).astype(np.int32), np.ones(k, np.bool_)
    for at in np.argsort(-gains, kind="mergesort"):
        one, other = rows[at], columns[at]
        if gains[at] > 0 and free[one] and free[other]:
            free[one] = free[other] = False
            stays = (other < n_remembered, sizes[other], -other)
            if (one < n_remembered, sizes[one], -one) < stays:
                into[one] = other
            else:
                into[other] = one
    return into


@compiled()
def match_labels(labels: Labels, names: Labels, n_labels: int, n_names: int) -> Labels:
    """A name for each label, (n_labels,): the one that most of its nodes had, or a new one.

    No name is given twice: pairs with the most common nodes go first. They have at least half of
    the nodes of either. New names are numbered from n_names on.

    labels, names: (n,) of each node, 0..n_labels-1 and 0..n_names-1, or negative for none.
    """
    label, name, counts = common_nodes(labels, names)
    of_label, of_name = np.zeros(n_labels, np.int64), np.zeros(n_names, np.int64)
    for pair, count in enumerate(counts):
        of_label[label[pair]] += count
        of_name[name[pair]] += count
    name_of, free = np.full(n_labels, NOBODY, np.int32), np.ones(n_names, np.bool_)
    for pair in np.argsort(-counts, kind="mergesort"):
        own, other = label[pair], name[pair]
        enough = 2 * counts[pair] >= min(of_label[own], of_name[other])
        if enough and name_of[own] < 0 and free[other]:
            name_of[own], free[other] = other, False
    n_given = n_names
    for own in range(n_labels):
        if name_of[own] < 0:
            name_of[own], n_given = n_given, n_given + 1
    return name_of


@compiled()
def common_nodes(labels: Labels, names: Labels) -> tuple[Ids, Ids, Ids]:
    """The pairs of label and name that nodes have, and how many nodes: (m,) each.

    Pairs ascend by label; those of one label are in the order of their first nodes.

    labels, names: (n,) of each node, negative for none.
    """
    both = np.flatnonzero((labels >= 0) & (names >= 0))
    label, name = labels[both], names[both]
    of_label, of_name = np.empty(len(both), np.int64), np.empty(len(both), np.int64)
    counts, n_pairs = np.zeros(len(both), np.int64), 0
    if len(both):
        pair_of = np.full(name.max() + 1, -1)
        for node in members_of(label, label.max() + 1)[0]:
            pair = pair_of[name[node]]
            if pair < 0 or of_label[pair] != label[node]:
                pair, n_pairs = n_pairs, n_pairs + 1
                pair_of[name[node]] = pair
                of_label[pair], of_name[pair] = label[node], name[node]
            counts[pair] += 1
    return of_label[:n_pairs], of_name[:n_pairs], counts[:n_pairs]


@compiled()
def majority(before: Labels, labels: Labels, n_before: int) -> Labels:
    """The label of more than half of the nodes of each earlier community, or `NOBODY`.

    before, labels: (n,) of each node, negative for none.
    """
    old, new, counts = common_nodes(before, labels)
    most = 2 * counts > np.bincount(before[before >= 0], minlength=n_before)[old]
    into = np.full(n_before, NOBODY, np.int32)
    into[old[most]] = new[most]
    return into
