"""Find the communities of least description length: a short search over the resolution.

Modularity at one resolution γ finds communities of one scale, and each graph has its own. So local
moves maximise modularity at several γ, each from the partition before: up, its communities are
refined; down, they are merged. The partitions are judged by `quality.description_length`. From the
best of them on upwards, belief propagation follows, while that shortens the description.

The description of beliefs sums over all partitions instead of naming one (`bits_of`). So
communities that are too weak to name each node's are still found.
"""

from __future__ import annotations

from math import inf

import numpy as np

from stream_icd.bp.description_length.exact_k import exactly, exactly_by_modularity
from stream_icd.bp.description_length.partition import Partition, measured
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
from stream_icd.bp.planted_partition.belief_propagation import SETTLED, Marginals, Model, believe
from stream_icd.bp.planted_partition.likelihood import bounded_mixing
from stream_icd.quality.description_length import partition_code

STEP = 3.0
"""Factor between two resolutions, upwards; downwards, where less changes, 2."""

COARSER = 2.0
"""Factor between two resolutions, downwards."""

LEAST_RESOLUTION = 1 / 4
"""Minimum resolution: below it, trees seem to have communities of nearly all nodes."""

ITERATIONS = 2
"""Iterations of local moves at the first resolution; all others start from it."""

EARLY_SWEEPS = 4
"""Sweeps of belief propagation for each partition; those near the best get more."""

NEAR = 0.01
"""Bits per edge. The search goes on while it gains more, and early beliefs are nearer to the best
ones if more sweeps can make them the best."""

UNSTABLE = 0.3
"""Beliefs have no description if the last sweep still moves more than this fraction of the nodes:
they swing between several states."""


def least_description(
    graph: LevelGraph,
    start: Labels | None,
    sweeps: int,
    rng: np.random.Generator,
    n_communities: int | None = None,
) -> Partition:
    """The candidate of least description length, and one community only if no other saves bits.

    start: (n,) where local moves start at the first resolution; None: single nodes.
    sweeps: maximum sweeps of belief propagation after the early ones.
    n_communities: K, if known. All candidates are brought to K communities before they are
        compared: merging cannot correct its first merges, so a coarser one can become the best.
    """
    labels = maximise_modularity(graph, 1.0, rng, start, ITERATIONS)
    order, _ = members_of(labels, int(labels.max()) + 1)
    found = _searched(reordered(graph, order), labels[order], sweeps, rng, n_communities)
    labels[order] = found.labels
    return found._replace(labels=compact(labels)[0])


def _searched(
    graph: LevelGraph,
    first: Labels,
    sweeps: int,
    rng: np.random.Generator,
    n_communities: int | None,
) -> Partition:
    """The search from the partition `first`; nodes of one community are next to each other.

    So neighbours are near in memory, which makes all passes over a large graph faster.
    """
    tried = _by_modularity(graph, first, rng)
    if not len(graph.indices):
        return _exactly(graph, tried[0], n_communities, rng)
    best = _settled(graph, _by_beliefs(graph, tried, rng) + tried, sweeps)
    if best.bits > 0:  # beliefs in what is not there
        best = min(tried, key=lambda one: one.bits)
    if n_communities is None:
        return _exactly(graph, best, None, rng)
    return _best_of_exactly(graph, [best, *tried], n_communities, rng)


def _exactly(
    graph: LevelGraph, one: Partition, n_communities: int | None, rng: np.random.Generator
) -> Partition:
    if n_communities is None:
        return one
    make_exact = exactly if one.believed else exactly_by_modularity
    labels = make_exact(graph, one.labels, n_communities, one.resolution, rng)
    return _candidate(graph, labels, one.resolution)._replace(believed=one.believed)


def _best_of_exactly(
    graph: LevelGraph, tried: list[Partition], n_communities: int, rng: np.random.Generator
) -> Partition:
    """The best of the candidates: each with K communities, improved by beliefs, with K again."""
    exact = [_exactly(graph, one, n_communities, rng) for one in tried]
    believed = [_believed(graph, one, EARLY_SWEEPS, keep_all=True) for one in exact]
    return _exactly(graph, min(believed, key=lambda one: one.bits), n_communities, rng)


def _by_modularity(graph: LevelGraph, labels: Labels, rng: np.random.Generator) -> list[Partition]:
    """Partitions at resolutions around the best one, ascending; `labels` is that at 1."""
    first = _candidate(graph, labels, 1.0)
    if first.bits == inf:  # a single community counts if modularity finds no other
        first = first._replace(bits=0.0)
    tried = [first]
    if not len(graph.indices):
        return tried
    while len(tried) < 2 or tried[-1].bits < tried[-2].bits - NEAR:
        tried.append(_finer(graph, tried[-1], rng))
    if len(tried) == 2:
        while tried[0].resolution > LEAST_RESOLUTION:
            tried.insert(0, _coarser(graph, tried[0], rng))
            if tried[0].bits >= tried[1].bits:
                break
    return tried


def _by_beliefs(
    graph: LevelGraph, tried: list[Partition], rng: np.random.Generator
) -> list[Partition]:
    """Beliefs that start from the best partition, then from finer ones while these are better."""
    number = min(range(len(tried)), key=lambda one: tried[one].bits)
    believed = [_believed(graph, tried[number], EARLY_SWEEPS)]
    while len(believed) < 2 or believed[-1].bits < believed[-2].bits - NEAR:
        number += 1
        finer = tried[number] if number < len(tried) else _finer(graph, believed[-1], rng)
        believed.append(_believed(graph, finer, EARLY_SWEEPS))
    return believed


def _settled(graph: LevelGraph, candidates: list[Partition], sweeps: int) -> Partition:
    """The best one, after more sweeps for those beliefs near it that have not settled."""
    while True:
        best = min(candidates, key=lambda one: one.bits)
        near = [one.unsettled > SETTLED and one.bits < best.bits + NEAR for one in candidates]
        if not any(near):
            return best
        candidates = [
            _believed(graph, one, sweeps)._replace(unsettled=0.0) if is_near else one
            for one, is_near in zip(candidates, near, strict=True)
        ]


def _finer(graph: LevelGraph, coarse: Partition, rng: np.random.Generator) -> Partition:
    """Pieces of the communities at a higher resolution, moved on all levels above."""
    resolution = STEP * coarse.resolution
    order = rng.permutation(graph.n_nodes).astype(np.int32)
    pieces = connected_pieces(graph, coarse.labels, order, resolution)
    return _moved(graph, pieces, resolution, rng)


def _coarser(graph: LevelGraph, fine: Partition, rng: np.random.Generator) -> Partition:
    return _moved(graph, fine.labels, fine.resolution / COARSER, rng)


def _moved(
    graph: LevelGraph, groups: Labels, resolution: float, rng: np.random.Generator
) -> Partition:
    """Local moves of these groups of nodes."""
    groups, n_groups = compact(groups)
    labels = maximise_modularity(coarsen(graph, groups, n_groups), resolution, rng)
    return _candidate(graph, labels[groups], resolution)


def _candidate(graph: LevelGraph, labels: Labels, resolution: float) -> Partition:
    """The partition; a single community has infinite bits, so that others are preferred."""
    one = measured(graph, labels, resolution)
    return one._replace(bits=one.bits or inf)


def _believed(
    graph: LevelGraph, start: Partition, sweeps: int, *, keep_all: bool = False
) -> Partition:
    """The most probable communities after belief propagation from those of `start`.

    keep_all: nodes whose community lost all its nodes return to it.
    """
    k = int(start.labels.max()) + 1
    mixing = bounded_mixing(start.mixing)
    found = believe(graph, start.labels, k, Model(mixing, 1.0, k), sweeps)
    likeliest = found.communities[:, 0].copy()
    if keep_all:
        lost = np.bincount(likeliest, minlength=k) == 0
        likeliest = np.where(lost[start.labels], start.labels, likeliest)
    after = _candidate(graph, likeliest, start.resolution)
    bits = after.bits
    if found.unsettled <= UNSTABLE and bits < inf:
        bits = bits_of(graph, found, k)
    return after._replace(bits=bits, mixing=found.mixing, believed=True, unsettled=found.unsettled)


def bits_of(graph: LevelGraph, found: Marginals, n_communities: int) -> float:
    """The description length of beliefs, bits per edge, less that without communities.

    −log Z of the edges, with the mixing and the sizes of the beliefs, plus the cost of the sizes.
    Z sums over all partitions; −log Z is the Bethe free energy (Yedidia, Freeman and Weiss 2005;
    Decelle et al. 2011). Naming one partition, as `description_length` does, costs the entropy of
    the beliefs more. For beliefs that are certain, the two are equal.

    The prior of a node in Z is n_c / N. In `description_length`, the sizes are known beforehand,
    so that the last nodes cost nothing: log N! − Σ log n_c! instead of −Σ n_c log n_c / N.
    """
    n_edges, used = len(graph.indices) / 2, found.communities >= 0
    sizes = np.bincount(found.communities[used], found.shares[used], n_communities)
    linked = used & (np.diff(graph.indptr) > 0)[:, None]
    n_linked = np.bincount(found.communities[linked], found.shares[linked], n_communities)
    kept = n_linked > 0.5
    known = (n_linked[kept] * np.log(sizes[kept] / sizes.sum())).sum()
    nats = partition_code(n_linked[kept]) + known - found.saved
    return float(nats / n_edges / np.log(2))
