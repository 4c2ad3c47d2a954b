"""Agglomeration: communities are united, those first whose union shortens the description most.

The gain of a union in description length (`quality.partition`) is that of the likelihood, plus what
it saves in encoding which nodes are in which community. What no edge links to its own joins others.
"""

from __future__ import annotations

from math import lgamma, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Floats, Ids, Labels, n_distinct
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.level_graph import (
    ROUNDING,
    LevelGraph,
    coarsen,
    coarsened,
    compact,
    inside_of,
    links,
    members_of,
    summed,
    within_groups,
)
from stream_icd.methods.bp.likelihood import MIXING_RANGE

_SHARE_AT_ONCE = 4
"""Each round unites one in this many of the pairs: gains change as communities grow."""


class _Objective(NamedTuple):
    """What unions raise: the log likelihood, less the nats of the code; or modularity."""

    mixing: float  # μ of the likelihood; 0: that of the partition before each round
    resolution: float  # γ of the modularity, else 0


class _Groups(NamedTuple):
    within: Floats  # (K,): edge weight inside each community
    parents: Labels  # (K,): what it is a part of


def agglomerate(
    graph: LevelGraph, labels: Labels, parents: Labels | None = None, mixing: float = 0.0
) -> Labels:
    """Unite communities while that shortens the description: labels (n,), 0..K-1.

    labels: (n,), 0..K-1, none empty.
    parents: (n,) unite only communities of the same parent, also such as are not linked.
    mixing: μ of the model; 0: that of the partition before each round.
    """
    if not graph.total or (parents is None and not len(graph.indices)):
        return compact(labels)[0]
    return _united(graph, labels, parents, _Objective(float(mixing), 0.0), 1)


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
    return _united(graph, labels, parents, _Objective(0.5, float(resolution)), n_communities)


def connected(
    graph: LevelGraph,
    labels: Labels,
    *,
    keep_number: bool = False,
    may_be_alone: bool = False,
    held: NDArray[np.bool_] | None = None,
) -> Labels:
    """The communities with what is not linked to the rest of its community elsewhere: labels (n,).

    The parts of a community that no edges inside it link are its pieces. The one of largest volume
    stays. Each other piece with edges becomes a community, and joins a linked one if that shortens
    the description, so that all communities are connected. Nodes without edges stay. New
    communities are numbered from the highest label on; some labels may be unused.

    keep_number: K stays. A piece joins a linked community in any case. Pieces that no edges link to
        what stays, as a whole component of the graph, go together to the community of the first.
    may_be_alone: a node with edges may be a community. Otherwise, it joins a linked one, too, if
        that shortens the description and K may change.
    held: (n,) nodes that stay, with all that is linked to them; None: none. A community that has
        such nodes keeps only these.
    """
    k = int(labels.max(initial=NOBODY)) + 1
    held = np.zeros(graph.n_nodes, np.bool_) if held is None else held
    start, n_groups, loose = _apart(graph, labels, k, may_be_alone or keep_number, held)
    if not loose.any():
        return labels
    coarse = coarsen(graph, start, n_groups)
    groups = _Groups(inside_of(coarse), np.zeros(n_groups, np.int32))
    found: Labels = _loose_rounds(coarse, groups, loose, keep_number)[start]
    if not keep_number:
        return found
    homes = np.empty(n_groups, np.int32)
    homes[start] = labels
    return np.where(found < k, found, homes[found])


def _united(
    graph: LevelGraph,
    labels: Labels,
    parents: Labels | None,
    objective: _Objective,
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
    groups = _Groups(within, of_communities)
    into: Labels = _rounds(inside, groups, n_parents, objective, n_communities)[0]
    return into[labels]


@compiled()
def _rounds(
    inside: LevelGraph, groups: _Groups, n_parents: int, objective: _Objective, n_communities: int
) -> tuple[Labels, int]:
    """Unite the best pairs in each round, until there are none, or K communities.

    So the last ones, where the choice matters most, are united one by one. Returns the community
    of each one there was, and the number of rounds.

    inside: the edges between communities of the same parent.
    n_parents: number of parents, 0 if there are none; a union saves the code of a piece more than
        there are parents. With parents, or by modularity, communities next to each other by volume
        are united too, as if they had no links.
    """
    k, (mixing, resolution) = len(groups.parents), objective
    unlinked = n_parents > 0 or resolution > 0
    into, n_rounds = np.arange(k).astype(np.int32), 0
    while k > n_communities:
        own, fewer = mixing or _present_mixing(inside, groups), 0.0
        if resolution == 0:
            many = n_parents + 1 if n_parents else (inside.n_linked > 0).sum()
            fewer = _saved_by_one_less(inside.n_linked.sum(), many)
        goal = _Objective(own, resolution)
        sources, targets, gains = _proposed(inside, groups, unlinked, goal)
        if resolution == 0:
            gaining = gains + fewer > ROUNDING
            sources, targets, gains = sources[gaining], targets[gaining], gains[gaining]
        best = np.argsort(-gains, kind="mergesort")
        most = -(-min(len(best), k - n_communities) // _SHARE_AT_ONCE)
        labels, n_groups = compact(_first_of(sources[best], targets[best], most, k))
        if n_groups == k:
            break
        groups = _summed(inside, groups, labels, n_groups)
        inside = coarsened(inside, labels, n_groups)
        into, k, n_rounds = labels[into], n_groups, n_rounds + 1
    return into, n_rounds


@compiled()
def _present_mixing(inside: LevelGraph, groups: _Groups) -> float:
    between: float = 1 - 2 * groups.within.sum() / inside.total
    return min(max(between, ROUNDING), MIXING_RANGE[1])


@compiled()
def _saved_by_one_less(n_nodes: float, n_communities: int) -> float:
    """Nats that one community less saves in the code of the sizes."""
    return log(max(n_nodes - n_communities + 1, 1) / max(n_communities - 1, 1))


@compiled()
def _proposed(
    inside: LevelGraph, groups: _Groups, unlinked: bool, objective: _Objective
) -> tuple[Ids, Ids, Floats]:
    """Pairs to unite, each source into its target, and what each gains.

    Each community is united with its best linked one. Of two that are each other's best, the
    smaller joins the larger: a hub gathers many a round.
    """
    indptr, indices, weights, volumes, sizes, total, _ = inside
    k, parents = len(volumes), groups.parents
    own, partners, best = np.zeros(k), np.full(k, -1), np.full(k, -np.inf)
    for one in range(k):
        own[one] = _worth(groups.within[one], volumes[one], sizes[one], total, objective)
    for one in range(k):
        for entry in range(indptr[one], indptr[one + 1]):
            other = indices[entry]
            if other > one:
                continue
            gain = _gain(inside, groups, own, one, other, weights[entry], objective)
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
                sources[n], targets[n] = one, other
                gains[n] = _gain(inside, groups, own, one, other, 0.0, objective)
                n += 1
    return sources[:n], targets[:n], gains[:n]


@compiled(inline="always")
def _gain(
    inside: LevelGraph,
    groups: _Groups,
    own: Floats,
    one: int,
    other: int,
    between: float,
    objective: _Objective,
) -> float:
    volumes, total = inside.strengths, inside.total
    if objective.resolution > 0:
        by_chance: float = objective.resolution * volumes[one] * volumes[other] / max(total, 1e-300)
        return between - by_chance
    within = groups.within[one] + groups.within[other] + between
    size = inside.n_linked[one] + inside.n_linked[other]
    gain: float = _worth(within, volumes[one] + volumes[other], size, total, objective)
    return gain - float(own[one]) - float(own[other])


@compiled(error_model="numpy")
def _worth(within: float, volume: float, size: float, total: float, objective: _Objective) -> float:
    """What a community adds to the log likelihood, less what it adds to the code."""
    lift = (1 - objective.mixing) / objective.mixing * total
    nats = within * log1p(lift / volume) if volume > 0 else 0.0
    return nats + lgamma(size + 1.0)


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
def _summed(inside: LevelGraph, groups: _Groups, labels: Labels, n_groups: int) -> _Groups:
    within, parents = np.zeros(n_groups), np.empty(n_groups, np.int32)
    for one, group in enumerate(labels):
        within[group] += groups.within[one]
        parents[group] = groups.parents[one]
        for entry in range(inside.indptr[one], inside.indptr[one + 1]):
            if labels[inside.indices[entry]] == group:
                within[group] += inside.weights[entry] / 2
    return _Groups(within, parents)


@compiled()
def _apart(
    graph: LevelGraph, labels: Labels, k: int, may_be_alone: bool, held: NDArray[np.bool_]
) -> tuple[Labels, int, NDArray[np.bool_]]:
    """The labels with each loose piece as a community from k on, how many, and which are loose."""
    pieces, n_pieces = _pieces(graph, labels, k)
    volumes, n_linked, stays = np.zeros(n_pieces), np.zeros(n_pieces), np.zeros(n_pieces, np.bool_)
    homes = np.empty(n_pieces, np.int32)
    for node, piece in enumerate(pieces):
        volumes[piece] += graph.strengths[node]
        n_linked[piece] += graph.n_linked[node]
        stays[piece] |= held[node]
        homes[piece] = labels[node]
    main = np.full(k, NOBODY, np.int32)  # the held one, or else the largest
    for piece, home in enumerate(homes):
        best = main[home]
        if best < 0 or (stays[piece], volumes[piece]) > (stays[best], volumes[best]):
            main[home] = piece
    is_loose, n_groups = np.zeros(n_pieces, np.bool_), k
    for piece, home in enumerate(homes):
        if n_linked[piece] and not stays[piece]:
            is_alone = main[home] == piece and n_linked[piece] == 1.0
            is_loose[piece] = main[home] != piece or (is_alone and not may_be_alone)
            if is_loose[piece]:
                homes[piece], n_groups = n_groups, n_groups + 1
    loose = np.zeros(n_groups, np.bool_)
    loose[k:] = True
    return homes[pieces], n_groups, loose


@compiled()
def _pieces(graph: LevelGraph, labels: Labels, k: int) -> tuple[Labels, int]:
    """The connected piece of its community that each node is in, (n,), and how many there are.

    A community of which all nodes are found is done: in most graphs, few edges are visited.
    """
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    pieces, waiting = -1 - labels, np.empty(len(labels), np.int32)  # negative: not found yet
    n_left, n_pieces = np.bincount(labels, minlength=k), 0
    for first, label in enumerate(labels):
        if pieces[first] >= 0:
            continue
        pieces[first], waiting[0], n_waiting = n_pieces, first, 1
        n_left[label] -= 1
        while n_waiting and n_left[label]:
            n_waiting -= 1
            node = waiting[n_waiting]
            for entry in range(indptr[node], indptr[node + 1]):
                neighbour = indices[entry]
                if pieces[neighbour] == -1 - label:
                    pieces[neighbour], waiting[n_waiting] = n_pieces, neighbour
                    n_waiting += 1
                    n_left[label] -= 1
        n_pieces += 1
    return pieces, n_pieces


@compiled()
def _loose_rounds(
    coarse: LevelGraph, groups: _Groups, loose: NDArray[np.bool_], all_of_them: bool
) -> Labels:
    """Unite loose communities with linked ones: the community each is part of now, (K,).

    Each round unites the best pairs. Of two communities that are not loose, none is united with the
    other, not by way of a loose one, either. A community that is united takes the first label of
    its parts.

    loose: (K,). all_of_them: unite those too that do not shorten the description; those without
        links stay.
    """
    k = len(loose)
    into, names = np.arange(k).astype(np.int32), np.arange(k).astype(np.int32)
    while loose.any():
        goal = _Objective(_present_mixing(coarse, groups), 0.0)
        fewer = _saved_by_one_less(coarse.n_linked.sum(), (coarse.n_linked > 0).sum())
        sources, targets, gains = _best_of_loose(coarse, groups, loose, goal)
        if not all_of_them:
            gaining = gains + fewer > ROUNDING
            sources, targets, gains = sources[gaining], targets[gaining], gains[gaining]
        best = np.argsort(-gains, kind="mergesort")
        labels, n_groups = compact(_first_of(sources[best], targets[best], len(best), k))
        if n_groups == k:
            break
        groups = _summed(coarse, groups, labels, n_groups)
        coarse = coarsened(coarse, labels, n_groups)
        parts, was_loose = names, loose
        names, loose = np.full(n_groups, len(into), np.int32), np.ones(n_groups, np.bool_)
        for one, group in enumerate(labels):
            names[group] = min(names[group], parts[one])
            loose[group] &= was_loose[one]
        into, k = labels[into], n_groups
    return names[into]


@compiled()
def _best_of_loose(
    coarse: LevelGraph, groups: _Groups, loose: NDArray[np.bool_], objective: _Objective
) -> tuple[Ids, Ids, Floats]:
    """Each loose community, the linked one to unite it with, and what that gains."""
    indptr, indices, weights, volumes, sizes, total, _ = coarse
    k, n = len(volumes), 0
    own, gains = np.zeros(k), np.full(k, -np.inf)
    for one in range(k):
        own[one] = _worth(groups.within[one], volumes[one], sizes[one], total, objective)
    sources, targets = np.empty(k, np.int64), np.empty(k, np.int64)
    for one in range(k):
        if not loose[one]:
            continue
        for entry in range(indptr[one], indptr[one + 1]):
            other = indices[entry]
            gain = _gain(coarse, groups, own, one, other, weights[entry], objective)
            if gain > gains[n]:
                targets[n], gains[n] = other, gain
        if gains[n] > -np.inf:
            sources[n] = one
            n += 1
    return sources[:n], targets[:n], gains[:n]
