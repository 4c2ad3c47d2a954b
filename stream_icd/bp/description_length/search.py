"""Find the communities of least description length: a short search over the resolution.

Modularity at one resolution γ finds communities of one scale, and each graph has its own. So local
moves maximise modularity at several γ, each from the partition before: up, its communities are
refined; down, they are merged. Only the first one moves single nodes. The others move pieces of
its communities, a graph of a third of the nodes. The partitions are judged by
`quality.description_length`.

Belief propagation follows. It starts from the best partition, cut where the likelihood grows:
beliefs unite what need not be apart, but divide nothing.

The description of beliefs sums over all partitions instead of naming one (`bits_of`). So
communities that are too weak to name each node's are still found: if no partition saves bits,
beliefs also start from finer ones.
"""

from __future__ import annotations

from math import inf

import numpy as np

from stream_icd.bp.description_length.exact_k import exactly, exactly_by_modularity
from stream_icd.bp.description_length.partition import (
    Coarse,
    Partition,
    coarse_of,
    finest,
    measured_coarse,
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

LEAST_RESOLUTION = 1 / 4
"""Minimum resolution: below it, trees seem to have communities of nearly all nodes."""

NEAR = 0.01
"""Bits per edge. The search goes on while it gains more."""

UNSTABLE = 0.3
"""Beliefs have no description if the last sweep still moves more than this fraction of the nodes:
they swing between several states."""


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
    order, _ = members_of(labels, int(labels.max()) + 1)
    found = _searched(reordered(graph, order), labels[order], sweeps, rng, n_communities, threads)
    labels[order] = found.labels
    return found._replace(labels=compact(labels)[0])


def _searched(
    graph: LevelGraph,
    first: Labels,
    sweeps: int,
    rng: np.random.Generator,
    n_communities: int | None,
    threads: int,
) -> Partition:
    """The search from the partition `first`; nodes of one community are next to each other.

    So neighbours are near in memory, which makes all passes over a large graph faster.
    """
    level = _pieces(graph, first, rng, threads)
    tried = _by_modularity(level, first[level.examples], rng, threads)
    of_nodes = [level.expanded(one) for one in tried]
    if not len(graph.indices):
        return _exactly(graph, of_nodes[0], n_communities, rng)
    believed = _by_beliefs(graph, level, tried, sweeps, rng, threads)
    best = min(believed + of_nodes, key=lambda one: one.bits)
    if best.bits > 0:  # beliefs in what is not there
        best = min(of_nodes, key=lambda one: one.bits)
    if n_communities is None:
        return best
    return _best_of_exactly(graph, [best, *of_nodes], n_communities, sweeps, rng, threads)


def _exactly(
    graph: LevelGraph, one: Partition, n_communities: int | None, rng: np.random.Generator
) -> Partition:
    if n_communities is None:
        return one
    make_exact = exactly if one.believed else exactly_by_modularity
    labels = make_exact(graph, one.labels, n_communities, one.resolution, rng)
    return _candidate(finest(graph), labels, one.resolution)._replace(believed=one.believed)


def _best_of_exactly(
    graph: LevelGraph,
    tried: list[Partition],
    n_communities: int,
    sweeps: int,
    rng: np.random.Generator,
    threads: int,
) -> Partition:
    """The best of the candidates: each with K communities, improved by beliefs, with K again."""
    exact = [_exactly(graph, one, n_communities, rng) for one in tried]
    believed = [_believed(graph, one, sweeps, threads, keep_all=True) for one in exact]
    return _exactly(graph, min(believed, key=lambda one: one.bits), n_communities, rng)


def _by_modularity(
    level: Coarse, labels: Labels, rng: np.random.Generator, threads: int
) -> list[Partition]:
    """Partitions of pieces at resolutions around the best one, ascending; `labels` is that at 1."""
    first = _candidate(level, labels, 1.0)
    if first.bits == inf:  # a single community counts if modularity finds no other
        first = first._replace(bits=0.0)
    tried = [first]
    if not level.n_edges:
        return tried
    while len(tried) < 2 or tried[-1].bits < tried[-2].bits - NEAR:
        tried.append(_finer(level, tried[-1], rng, threads))
    if len(tried) == 2:
        while tried[0].resolution > LEAST_RESOLUTION:
            tried.insert(0, _coarser(level, tried[0], rng, threads))
            if tried[0].bits >= tried[1].bits:
                break
    return tried


def _by_beliefs(
    graph: LevelGraph,
    level: Coarse,
    tried: list[Partition],
    sweeps: int,
    rng: np.random.Generator,
    threads: int,
) -> list[Partition]:
    """Beliefs that start from the best partition, cut where the likelihood grows.

    If no partition saves bits, beliefs also start from finer ones while these are better.
    """
    number = min(range(len(tried)), key=lambda one: tried[one].bits)
    best = tried[number]
    k, mixing = int(best.labels.max()) + 1, bounded_mixing(best.mixing)
    cut = split_communities(
        level, best.labels, k, STEP * best.resolution, mixing, rng, coded=False, threads=threads
    )
    start = level.expanded(_candidate(level, cut, best.resolution))
    believed = [_believed(graph, start, sweeps, threads)]
    if best.bits < 0:
        return believed
    while len(believed) < 2 or believed[-1].bits < believed[-2].bits - NEAR:
        number += 1
        if number == len(tried):
            tried = [*tried, _finer(level, tried[-1], rng, threads)]
        believed.append(_believed(graph, level.expanded(tried[number]), sweeps, threads))
    return believed


def _pieces(graph: LevelGraph, labels: Labels, rng: np.random.Generator, threads: int) -> Coarse:
    """The graph of well-linked pieces of these communities."""
    order = rng.permutation(graph.n_nodes).astype(np.int32)
    return coarse_of(graph, connected_pieces(graph, labels, order, STEP, threads), threads)


def _finer(level: Coarse, coarse: Partition, rng: np.random.Generator, threads: int) -> Partition:
    """Pieces of the communities at a higher resolution, moved on all levels above."""
    resolution = STEP * coarse.resolution
    order = rng.permutation(level.graph.n_nodes).astype(np.int32)
    pieces = connected_pieces(level.graph, coarse.labels, order, resolution, threads)
    return _moved(level, pieces, resolution, rng, threads)


def _coarser(level: Coarse, fine: Partition, rng: np.random.Generator, threads: int) -> Partition:
    return _moved(level, fine.labels, fine.resolution / COARSER, rng, threads)


def _moved(
    level: Coarse, groups: Labels, resolution: float, rng: np.random.Generator, threads: int
) -> Partition:
    """Local moves of these groups of pieces."""
    groups, n_groups = compact(groups)
    coarse = coarsen(level.graph, groups, n_groups, threads)
    labels = maximise_modularity(coarse, resolution, rng, threads=threads)
    return _candidate(level, labels[groups], resolution)


def _candidate(level: Coarse, labels: Labels, resolution: float) -> Partition:
    """The partition; a single community has infinite bits, so that others are preferred."""
    one = measured_coarse(level, labels, resolution)
    return one._replace(bits=one.bits or inf)


def _believed(
    graph: LevelGraph, start: Partition, sweeps: int, threads: int, *, keep_all: bool = False
) -> Partition:
    """The most probable communities after belief propagation from those of `start`.

    keep_all: nodes whose community lost all its nodes return to it.
    """
    k = int(start.labels.max()) + 1
    mixing = bounded_mixing(start.mixing)
    found = believe(graph, start.labels, k, Model(mixing, 1.0, k), sweeps, threads=threads)
    likeliest = found.communities[:, 0].copy()
    if keep_all:
        lost = np.bincount(likeliest, minlength=k) == 0
        likeliest = np.where(lost[start.labels], start.labels, likeliest)
    after = _candidate(finest(graph), likeliest, start.resolution)
    bits = after.bits
    if found.unsettled <= UNSTABLE and bits < inf:
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
    n_edges, used = len(graph.indices) / 2, found.communities >= 0
    sizes = np.bincount(found.communities[used], found.shares[used], n_communities)
    linked = used & (np.diff(graph.indptr) > 0)[:, None]
    n_linked = np.bincount(found.communities[linked], found.shares[linked], n_communities)
    kept = n_linked > 0.5
    known = (n_linked[kept] * np.log(sizes[kept] / sizes.sum())).sum()
    nats = partition_code(n_linked[kept]) + known - found.saved
    return float(nats / n_edges / np.log(2))
