"""Agglomeration: communities are united, those first whose union shortens the description most.

The gain of a union in description length (`quality.description_length`) is that of the likelihood
(`merge_gain`), plus what it saves in encoding which nodes are in which community and how large
these are.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, coarsen, compact
from stream_icd.bp.planted_partition.likelihood import (
    MIXING_RANGE,
    Floats,
    Groups,
    log_binomial,
    merge_gain,
)
from stream_icd.distinct import n_distinct
from stream_icd.graphs.compiled import compiled

Ids = NDArray[np.int64]

NOTHING = np.empty(0, np.int64)

SHARE_AT_ONCE = 4
"""Each round unites one in this many of the pairs: gains change as communities grow."""

LEAST_GAIN = 1e-9
"""Minimum gain in nats; smaller gains are rounding errors."""

LEAST_MIXING = 1e-9
"""Minimum mixing: rounding must not make it 0 if communities are linked."""


class Unions(NamedTuple):
    """Pairs to unite, each source into its target, and what each gains."""

    sources: Ids
    targets: Ids
    gains: Floats


def agglomerate(
    graph: LevelGraph,
    labels: Labels,
    parents: Labels | None = None,
    mixing: float | None = None,
    n_linked: Floats | None = None,
) -> Labels:
    """Unite communities while that shortens the description: labels (n,), 0..K-1.

    labels: (n,), 0..K-1, none empty.
    parents: (n,) unite only communities of the same parent, also such as are not linked.
    mixing: μ of the model; None: that of the partition before each round.
    n_linked: (n,) nodes with edges that each node stands for; None: itself.
    """
    linked = np.diff(graph.indptr) > 0 if n_linked is None else n_linked
    n_parents = 0 if parents is None else n_distinct(parents)

    def unions(coarse: LevelGraph, of_communities: Labels, groups: Labels) -> Unions:
        if not len(coarse.indices) and parents is None:
            return Unions(NOTHING, NOTHING, np.empty(0))
        within = coarse.strengths - _links(coarse)
        own = min(max(1 - within.sum() / coarse.total, LEAST_MIXING), MIXING_RANGE[1])
        sizes = np.bincount(groups, linked).astype(np.float64, copy=False)
        # One less saves bits in the code of the sizes, too; a piece is one more than its parents.
        many = n_parents + 1 if n_parents else np.count_nonzero(sizes)
        fewer = log(max(sizes.sum() - many + 1, 1) / max(many - 1, 1))
        found = _proposed(
            coarse,
            Groups(within / 2, coarse.strengths, sizes),
            of_communities,
            n_parents > 0,
            mixing or own,
            0.0,
        )
        gaining = found.gains + fewer > LEAST_GAIN
        return Unions(found.sources[gaining], found.targets[gaining], found.gains[gaining])

    return _agglomerated(graph, labels, parents, unions)


def agglomerate_to(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    parents: Labels | None = None,
) -> Labels:
    """Unite communities to exactly K if there are more, those first that lose least modularity.

    Without beliefs, which follow, modularity at the resolution γ of the partition judges better
    than the likelihood where few communities are left.
    """

    def unions(coarse: LevelGraph, of_communities: Labels, _groups: Labels) -> Unions:
        groups = Groups(coarse.strengths, coarse.strengths, coarse.strengths)
        return _proposed(coarse, groups, of_communities, True, 0.5, resolution)

    return _agglomerated(graph, labels, parents, unions, n_communities)


def _agglomerated(
    graph: LevelGraph,
    labels: Labels,
    parents: Labels | None,
    unions: Callable[[LevelGraph, Labels, Labels], Unions],
    n_communities: int = 0,
) -> Labels:
    """Unite the best pairs in each round, until there are none, or K communities.

    So the last ones, where the choice matters most, are united one by one. Time is O(E) plus a few
    passes over the links between communities.
    """
    labels, k = compact(labels)
    of_communities = np.zeros(k, np.int32)
    if parents is not None:
        of_communities[labels] = parents
    coarse = coarsen(graph, labels, k)
    while k > n_communities:
        sources, targets, gains = unions(coarse, of_communities, labels)
        best = np.argsort(-gains, kind="stable")
        most = -(-min(len(best), k - n_communities) // SHARE_AT_ONCE)
        groups, n_groups = compact(_united(sources[best], targets[best], most, k))
        if n_groups == k:
            break
        of_groups = np.empty(n_groups, np.int32)
        of_groups[groups] = of_communities
        coarse, of_communities, k = coarsen(coarse, groups, n_groups), of_groups, n_groups
        labels = groups[labels]
    return labels


def _proposed(
    coarse: LevelGraph,
    groups: Groups,
    parents: Labels,
    unlinked: bool,
    mixing: float,
    resolution: float,
) -> Unions:
    """Unite each community with its best linked one in its parent.

    unlinked: also those next to each other by volume, as if they had no links.
    resolution: γ if gains are those of modularity, else 0.
    """
    partners, gains = _best_links(coarse, groups, parents, mixing, resolution)
    # Of two that are each other's best, the smaller joins the larger: a hub gathers many a round.
    mutual = partners[partners] == np.arange(len(partners))
    joins = ~mutual | (coarse.strengths <= coarse.strengths[partners])
    left = np.flatnonzero((partners >= 0) & joins)
    right, gains = partners[left], gains[left]
    if unlinked:
        by_volume = np.lexsort((coarse.strengths, parents))
        together = np.diff(parents[by_volume]) == 0
        pairs = by_volume[:-1][together], by_volume[1:][together]
        left, right = np.append(left, pairs[0]), np.append(right, pairs[1])
        alone = _gains_unlinked(groups, *pairs, coarse.total, mixing, resolution)
        gains = np.append(gains, alone)
    return Unions(left, right, gains)


@compiled()
def _links(coarse: LevelGraph) -> Floats:
    """Weight of the edges to others, (K,)."""
    links = np.zeros(len(coarse.strengths))
    for one in range(len(links)):
        for entry in range(coarse.indptr[one], coarse.indptr[one + 1]):
            links[one] += coarse.weights[entry]
    return links


@compiled()
def _best_links(
    coarse: LevelGraph, groups: Groups, parents: Labels, mixing: float, resolution: float
) -> tuple[Ids, Floats]:
    """The best linked partner of each community in its parent, -1 for none, and its gain."""
    k = len(parents)
    partners, gains = np.full(k, -1), np.full(k, -np.inf)
    for one in range(k):
        for entry in range(coarse.indptr[one], coarse.indptr[one + 1]):
            other = coarse.indices[entry]
            if parents[other] == parents[one]:
                weight = coarse.weights[entry]
                gain = _gain(groups, one, other, weight, coarse.total, mixing, resolution)
                if gain > gains[one]:
                    partners[one], gains[one] = other, gain
    return partners, gains


@compiled()
def _gains_unlinked(
    groups: Groups, left: Ids, right: Ids, total: float, mixing: float, resolution: float
) -> Floats:
    gains = np.empty(len(left))
    for pair in range(len(left)):
        gains[pair] = _gain(groups, left[pair], right[pair], 0.0, total, mixing, resolution)
    return gains


@compiled()
def _gain(
    groups: Groups,
    one: int,
    other: int,
    between: float,
    total: float,
    mixing: float,
    resolution: float,
) -> float:
    """The gain in modularity, or the nats that a union saves but for the code of the sizes."""
    if resolution > 0:
        gain: float = between - resolution * groups.volumes[one] * groups.volumes[other] / max(
            total, 1e-300
        )
    else:
        gain = merge_gain(groups, one, other, between, total, mixing)
        gain += log_binomial(groups.sizes[one], groups.sizes[other])
    return gain


@compiled()
def _united(sources: Ids, targets: Ids, at_most: int, k: int) -> Labels:
    """The community that each is part of now, (K,): no source twice, no target that is one."""
    into = np.arange(k).astype(np.int32)
    is_target = np.zeros(k, np.bool_)
    n_united = 0
    for rank in range(len(sources)):
        source, target = sources[rank], targets[rank]
        if n_united == at_most:
            break
        if into[source] == source and into[target] == target and not is_target[source]:
            into[source], is_target[target] = target, True
            n_united += 1
    return into
