"""Agglomeration: communities are united, those first whose union shortens the description most.

The gain of a union in description length (`quality.description_length`) is that of the likelihood,
plus what it saves in encoding which nodes are in which community and how large these are.
"""

from __future__ import annotations

from math import lgamma, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.arrays import Floats, Ids, Labels, n_distinct
from stream_icd.bp.level_graph import (
    ROUNDING,
    LevelGraph,
    coarsen,
    coarsened,
    compact,
    links,
    members_of,
    summed,
    within_groups,
)
from stream_icd.bp.likelihood import MIXING_RANGE, log_likelihood_ratio
from stream_icd.graphs.compiled import compiled

SHARE_AT_ONCE = 4
"""Each round unites one in this many of the pairs: gains change as communities grow."""

NO_CODE: Floats = np.empty(0)


class Objective(NamedTuple):
    """What unions raise: the log likelihood, less the nats of the code; or modularity.

    mixing: μ of the likelihood; 0: that of the partition before each round.
    resolution: γ of the modularity, else 0.
    log_factorials: log n! of all sizes n that there can be; empty if the code does not count.
    """

    mixing: float
    resolution: float
    log_factorials: Floats


class Groups(NamedTuple):
    """Totals of each community, all (K,): edge weight inside, number of nodes, parent."""

    within: Floats
    sizes: Floats
    parents: Labels


def agglomerate(
    graph: LevelGraph,
    labels: Labels,
    parents: Labels | None = None,
    mixing: float = 0.0,
    n_linked: Floats | None = None,
    coded: bool = True,
) -> Labels:
    """Unite communities while that shortens the description: labels (n,), 0..K-1.

    labels: (n,), 0..K-1, none empty.
    parents: (n,) unite only communities of the same parent, also such as are not linked.
    mixing: μ of the model; 0: that of the partition before each round.
    n_linked: (n,) nodes with edges that each node stands for; None: itself.
    coded: whether the cost of encoding the partition counts, or the likelihood alone.
    """
    if not graph.total or (parents is None and not len(graph.indices)):
        return compact(labels)[0]
    linked = np.diff(graph.indptr) > 0 if n_linked is None else n_linked
    code = _log_factorials(int(linked.sum())) if coded else NO_CODE
    return _united(graph, labels, parents, linked, Objective(float(mixing), 0.0, code), 1)


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
    linked, objective = np.ones(graph.n_nodes), Objective(0.5, float(resolution), NO_CODE)
    return _united(graph, labels, parents, linked, objective, n_communities)


def _united(
    graph: LevelGraph,
    labels: Labels,
    parents: Labels | None,
    linked: Floats | NDArray[np.bool_],
    objective: Objective,
    n_communities: int,
) -> Labels:
    labels, k = compact(labels)
    volumes = summed(graph.strengths, labels, k)
    within = (volumes - summed(links(graph, labels, False), labels, k)) / 2
    of_communities, n_parents = np.zeros(k, np.int32), 0
    if parents is not None:
        of_communities[labels], n_parents = parents, n_distinct(parents)
        graph = within_groups(graph, parents)
    inside = graph if k == graph.n_nodes else coarsen(graph, labels, k)
    groups = Groups(within, summed(linked, labels, k), of_communities)
    unlinked = parents is not None or objective.resolution > 0
    into: Labels = _rounds(inside, groups, unlinked, n_parents, objective, n_communities)[0]
    return into[labels]


@compiled()
def _rounds(
    inside: LevelGraph,
    groups: Groups,
    unlinked: bool,
    n_parents: int,
    objective: Objective,
    n_communities: int,
) -> tuple[Labels, int]:
    """Unite the best pairs in each round, until there are none, or K communities.

    So the last ones, where the choice matters most, are united one by one. Returns the community
    of each one there was, and the number of rounds.

    inside: the edges between communities of the same parent.
    unlinked: whether those next to each other by volume are united too, as if they had no links.
    n_parents: number of parents; a union saves the code of a piece more than there are parents.
    """
    k, (mixing, resolution, code) = len(groups.parents), objective
    into, n_rounds = np.arange(k).astype(np.int32), 0
    while k > n_communities:
        own, fewer = mixing, 0.0
        if not mixing:
            between = 1 - 2 * groups.within.sum() / inside.total
            own = min(max(between, ROUNDING), MIXING_RANGE[1])
        if len(code):
            # One less saves bits in the code of the sizes, too.
            many = n_parents + 1 if n_parents else (groups.sizes > 0).sum()
            fewer = log(max(groups.sizes.sum() - many + 1, 1) / max(many - 1, 1))
        sources, targets, gains = _proposed(
            inside, groups, unlinked, Objective(own, resolution, code)
        )
        if resolution == 0:
            gaining = gains + fewer > ROUNDING
            sources, targets, gains = sources[gaining], targets[gaining], gains[gaining]
        best = np.argsort(-gains, kind="mergesort")
        most = -(-min(len(best), k - n_communities) // SHARE_AT_ONCE)
        labels, n_groups = compact(_first_of(sources[best], targets[best], most, k))
        if n_groups == k:
            break
        groups = _summed(inside, groups, labels, n_groups)
        inside = coarsened(inside, labels, n_groups)
        into, k, n_rounds = labels[into], n_groups, n_rounds + 1
    return into, n_rounds


@compiled()
def _proposed(
    inside: LevelGraph, groups: Groups, unlinked: bool, objective: Objective
) -> tuple[Ids, Ids, Floats]:
    """Pairs to unite, each source into its target, and what each gains.

    Each community is united with its best linked one. Of two that are each other's best, the
    smaller joins the larger: a hub gathers many a round.
    """
    indptr, indices, weights, volumes, total = inside
    (within, sizes, parents), resolution, k = groups, objective.resolution, len(groups.parents)
    own, partners, best = np.zeros(k), np.full(k, -1), np.full(k, -np.inf)
    if resolution == 0:
        for one in range(k):
            own[one] = community_nats(within[one], volumes[one], sizes[one], total, objective)
    for one in range(k):
        for entry in range(indptr[one], indptr[one + 1]):
            other, weight = indices[entry], weights[entry]
            if other > one:
                continue
            if resolution > 0:
                gain = weight - resolution * volumes[one] * volumes[other] / total
            else:
                volume, size = volumes[one] + volumes[other], sizes[one] + sizes[other]
                joint = within[one] + within[other] + weight
                gain = community_nats(joint, volume, size, total, objective) - own[one] - own[other]
            if gain > best[one]:
                partners[one], best[one] = other, gain
            if gain > best[other]:
                partners[other], best[other] = one, gain
    sources, targets, gains = np.empty(2 * k, np.int64), np.empty(2 * k, np.int64), np.empty(2 * k)
    n = 0
    for one, other in enumerate(partners):
        if other >= 0 and (partners[other] != one or volumes[one] <= volumes[other]):
            sources[n], targets[n], gains[n] = one, other, best[one]
            n += 1
    if unlinked:
        by_volume = np.argsort(volumes, kind="mergesort")
        by_volume = by_volume[members_of(parents[by_volume], parents.max() + 1)[0]]
        for place in range(k - 1):
            one, other = by_volume[place], by_volume[place + 1]
            if parents[one] == parents[other]:
                volume, size = volumes[one] + volumes[other], sizes[one] + sizes[other]
                gain = -resolution * volumes[one] * volumes[other] / max(total, 1e-300)
                if resolution == 0:
                    gain = community_nats(
                        within[one] + within[other], volume, size, total, objective
                    )
                sources[n], targets[n], gains[n] = one, other, gain - own[one] - own[other]
                n += 1
    return sources[:n], targets[:n], gains[:n]


@compiled(error_model="numpy")
def community_nats(
    within: float, volume: float, size: float, total: float, objective: Objective
) -> float:
    """What a community adds to the log likelihood, less what it adds to the code."""
    nats: float = within * log_likelihood_ratio(volume, total, objective.mixing)
    if len(objective.log_factorials):
        nats += objective.log_factorials[int(size)]
    return nats


@compiled()
def _log_factorials(most: int) -> Floats:
    """log n! for n = 0..most."""
    logs = np.empty(most + 1)
    for n in range(most + 1):
        logs[n] = lgamma(n + 1.0)
    return logs


@compiled()
def _first_of(sources: Ids, targets: Ids, at_most: int, k: int) -> Labels:
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


@compiled()
def _summed(inside: LevelGraph, groups: Groups, labels: Labels, n_groups: int) -> Groups:
    """The totals of united communities."""
    within, sizes = np.zeros(n_groups), np.zeros(n_groups)
    parents = np.empty(n_groups, np.int32)
    for one, group in enumerate(labels):
        within[group] += groups.within[one]
        sizes[group] += groups.sizes[one]
        parents[group] = groups.parents[one]
        for entry in range(inside.indptr[one], inside.indptr[one + 1]):
            if labels[inside.indices[entry]] == group:
                within[group] += inside.weights[entry] / 2
    return Groups(within, sizes, parents)


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
    rows = np.repeat(np.arange(n_communities), np.diff(coarse.indptr))
    outside = np.bincount(rows, coarse.weights, n_communities)
    within = np.maximum(coarse.strengths - outside, 0.0) / 2
    sizes = np.bincount(labels, minlength=n_communities)
    before = np.bincount(remembered[remembered >= 0], minlength=n_communities)
    stayed = np.bincount(labels[labels == remembered], minlength=n_communities)
    is_left_over = 2 * stayed < before
    half_expected = np.sqrt(within[rows] * within[coarse.indices])
    alike = (half_expected > 0) & (half_expected <= coarse.weights)
    alike |= is_left_over[rows] | is_left_over[coarse.indices]
    pairs = np.flatnonzero(alike & (rows < coarse.indices))
    rows, columns, between = rows[pairs], coarse.indices[pairs], coarse.weights[pairs]
    gains = _gains(within, coarse.strengths, rows, columns, between, coarse.total, mixing)
    into = np.arange(n_communities, dtype=np.int32)
    free = np.ones(n_communities, np.bool_)
    gaining = np.flatnonzero(gains > 0)
    for at in gaining[np.argsort(-gains[gaining], kind="stable")]:
        pair = [rows[at], columns[at]]
        if free[pair].all():
            small, large = sorted(pair, key=lambda c: (c < n_remembered, sizes[c], -c))
            into[small], free[pair] = large, False
    return into


@compiled()
def _gains(
    within: Floats,
    volumes: Floats,
    rows: Ids,
    columns: Labels,
    between: Floats,
    total: float,
    mixing: float,
) -> Floats:
    """The gain in likelihood of merging each pair, in nats."""
    own, gains = np.empty(len(within)), np.empty(len(rows))
    for one, weight in enumerate(within):
        own[one] = weight * log_likelihood_ratio(volumes[one], total, mixing)
    for pair in range(len(rows)):
        one, other = rows[pair], columns[pair]
        joint, volume = within[one] + within[other] + between[pair], volumes[one] + volumes[other]
        ratio = log_likelihood_ratio(volume, total, mixing)
        gains[pair] = joint * ratio - own[one] - own[other]
    return gains
