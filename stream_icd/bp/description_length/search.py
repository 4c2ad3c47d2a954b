"""Find the communities of least description length: a short search over the resolution.

Modularity at one resolution γ finds communities of one scale, and each graph has its own. So local
moves maximise modularity at several γ, each from the partition before; only the first one moves
single nodes, the others pieces of its communities. Belief propagation follows, from the best
partition. docs/method.md has the steps, and what each is worth.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from stream_icd.bp.description_length.exact_k import exactly
from stream_icd.bp.description_length.partition import (
    Coarse,
    Partition,
    coarse_of,
    finest,
    measured,
)
from stream_icd.bp.description_length.splitting import split_communities
from stream_icd.bp.multilevel.level_graph import (
    Labels,
    LevelGraph,
    coarsen,
    compact,
    members_of,
    reordered,
)
from stream_icd.bp.multilevel.local_moves import connected_pieces
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.planted_partition.belief_propagation import Marginals, Model, believe
from stream_icd.bp.planted_partition.likelihood import bounded_mixing
from stream_icd.quality.description_length import partition_code

STEP = 3.0
"""Factor between two resolutions, upwards; downwards, where less changes, 2."""

COARSER = 2.0
"""Factor between two resolutions, downwards."""


def least_description(
    graph: LevelGraph,
    start: Labels | None,
    sweeps: int,
    rng: np.random.Generator,
    n_communities: int | None = None,
    threads: int = 1,
) -> Partition:
    """The candidate of least description length, and one community only if no other saves bits.

    start: (n,) where local moves start at the first resolution; None: single nodes.
    sweeps: maximum sweeps of belief propagation.
    threads: how many work on it; the result is the same.
    n_communities: K, if known. All candidates are brought to K communities before they are
        compared: merging cannot correct its first merges, so a coarser one can become the best.
    """
    labels = maximise_modularity(graph, 1.0, rng, start, threads=threads)
    # Nodes of one community next to each other: all passes over a large graph are faster.
    order, _ = members_of(labels, int(labels.max()) + 1)
    graph, first = reordered(graph, order, threads), labels[order]
    visited = rng.permutation(graph.n_nodes).astype(np.int32)
    level = coarse_of(graph, connected_pieces(graph, first, visited, STEP, threads), threads)
    found = _searched(_Search(graph, level, sweeps, rng, threads), first, n_communities)
    labels[order] = found.labels
    return found._replace(labels=compact(labels)[0])


class _Search(NamedTuple):
    """A graph, its pieces, and how it is searched; see `least_description`."""

    graph: LevelGraph
    level: Coarse
    sweeps: int
    rng: np.random.Generator
    threads: int


def _searched(how: _Search, first: Labels, n_communities: int | None) -> Partition:
    """The search from the partition of nodes that local moves found at the first resolution."""
    tried = _by_modularity(how, first[how.level.examples])
    of_nodes = [how.level.expanded(one) for one in tried]
    best = of_nodes[0]
    if len(how.graph.indices):
        best = min(_by_beliefs(how, tried) + of_nodes, key=lambda one: one.bits)
        if best.bits > 0:  # beliefs in what is not there
            best = min(of_nodes, key=lambda one: one.bits)
    if n_communities is None:
        return best
    if not len(how.graph.indices):
        return _exactly(how, best, n_communities)
    # Each with K communities, improved by beliefs, with K again.
    exact = [_exactly(how, one, n_communities) for one in (best, *of_nodes)]
    believed = [_believed(how, one, keep_all=True) for one in exact]
    return _exactly(how, min(believed, key=lambda one: one.bits), n_communities)


def _exactly(how: _Search, one: Partition, n_communities: int) -> Partition:
    labels = exactly(how.graph, one.labels, n_communities, one.resolution, how.rng, one.believed)
    return _candidate(finest(how.graph), labels, one.resolution)._replace(believed=one.believed)


def _by_modularity(how: _Search, labels: Labels) -> list[Partition]:
    """Partitions of pieces at resolutions around the best one, ascending; `labels` is that at 1."""
    first = _candidate(how.level, labels, 1.0)
    if first.bits == inf:  # a single community counts if modularity finds no other
        first = first._replace(bits=0.0)
    tried = [first]
    if not how.level.n_edges:
        return tried
    while len(tried) < 2 or tried[-1].bits < tried[-2].bits:
        tried.append(_finer(how, tried[-1]))
    if len(tried) == 2:
        for _ in range(2):  # further down, trees seem to have communities of nearly all nodes
            tried.insert(0, _moved(how, tried[0].labels, tried[0].resolution / COARSER))
            if tried[0].bits >= tried[1].bits:
                break
    return tried


def _by_beliefs(how: _Search, tried: list[Partition]) -> list[Partition]:
    """Beliefs that start from the best partition, cut where the likelihood grows.

    If no partition saves bits, beliefs also start from finer ones while these are better.
    """
    number = min(range(len(tried)), key=lambda one: tried[one].bits)
    best = tried[number]
    cut = split_communities(
        how.level,
        best.labels,
        int(best.labels.max()) + 1,
        STEP * best.resolution,
        bounded_mixing(best.mixing),
        how.rng,
        coded=False,
        threads=how.threads,
    )
    start = _candidate(how.level, cut, best.resolution)
    believed = [_believed(how, how.level.expanded(start))]
    if best.bits < 0:
        return believed
    while len(believed) < 2 or believed[-1].bits < believed[-2].bits:
        number += 1
        if number == len(tried):
            tried = [*tried, _finer(how, tried[-1])]
        believed.append(_believed(how, how.level.expanded(tried[number])))
    return believed


def _finer(how: _Search, coarse: Partition) -> Partition:
    """Pieces of the communities at a higher resolution, moved on all levels above."""
    graph, resolution = how.level.graph, STEP * coarse.resolution
    visited = how.rng.permutation(graph.n_nodes).astype(np.int32)
    pieces = connected_pieces(graph, coarse.labels, visited, resolution, how.threads)
    return _moved(how, pieces, resolution)


def _moved(how: _Search, groups: Labels, resolution: float) -> Partition:
    """Local moves of these groups of pieces."""
    groups, n_groups = compact(groups)
    coarse = coarsen(how.level.graph, groups, n_groups, how.threads)
    labels = maximise_modularity(coarse, resolution, how.rng, threads=how.threads)
    return _candidate(how.level, labels[groups], resolution)


def _candidate(level: Coarse, labels: Labels, resolution: float) -> Partition:
    """The partition; a single community has infinite bits, so that others are preferred."""
    one = measured(level, labels, resolution)
    return one._replace(bits=one.bits or inf)


def _believed(how: _Search, start: Partition, *, keep_all: bool = False) -> Partition:
    """The most probable communities after belief propagation from those of `start`.

    Where the last sweep still moves half of the nodes, beliefs swing between several states, and
    have no description: the labels are measured instead.

    keep_all: nodes whose community lost all its nodes return to it.
    """
    graph, k = how.graph, int(start.labels.max()) + 1
    model = Model(bounded_mixing(start.mixing), 1.0, k)
    found = believe(graph, start.labels, k, model, how.sweeps, threads=how.threads)
    likeliest = found.communities[:, 0].copy()
    if keep_all:
        lost = np.bincount(likeliest, minlength=k) == 0
        likeliest = np.where(lost[start.labels], start.labels, likeliest)
    after = _candidate(finest(graph), likeliest, start.resolution)
    bits = after.bits
    if 2 * found.unsettled < 1 and bits < inf:
        bits = bits_of(graph, found, k)
    return after._replace(bits=bits, mixing=found.mixing, believed=True)


def bits_of(graph: LevelGraph, found: Marginals, n_communities: int) -> float:
    """The description length of beliefs, bits per edge, less that without communities.

    −log Z of the edges, with the mixing and the sizes of the beliefs, plus the cost of the sizes.
    Z sums over all partitions; −log Z is the Bethe free energy (Yedidia, Freeman and Weiss 2005;
    Decelle et al. 2011). Naming one partition, as `description_length` does, costs the entropy of
    the beliefs more. For beliefs that are certain, the two are equal.

    The prior of a node in Z is n_c / N. In `description_length`, the sizes are known beforehand,
    so that the last nodes cost nothing: log N! − Σ log n_c! instead of −Σ n_c log n_c / N.
    """
    n_edges = len(graph.indices) / 2
    linked_shares = found.shares * (np.diff(graph.indptr) > 0)[:, None]
    sizes, n_linked = (  # of each community: expected numbers of nodes, and of those with edges
        np.bincount(found.communities.ravel() + 1, shares.ravel(), n_communities + 1)[1:]
        for shares in (found.shares, linked_shares)
    )
    kept = n_linked > 0.5
    known = (n_linked[kept] * np.log(sizes[kept] / sizes.sum())).sum()
    nats = partition_code(n_linked[kept]) + known - found.saved
    return float(nats / n_edges / np.log(2))
