"""Communities of one graph: those of least description length, by a short search.

Modularity at one resolution γ finds communities of one scale, and each graph has its own. So local
moves maximise modularity at several γ; only the first one moves single nodes, the others pieces of
its communities, which are found once. Belief propagation follows, from the best partition.
docs/method.md has the steps, docs/measured/rules.md what each is worth.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.communities import checked_n_communities
from stream_icd.core.compiled import keep_threads, threads_for, uninterrupted
from stream_icd.methods.bp.agglomeration import connected
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.level_graph import LevelGraph, coarsen, compact, finest_level
from stream_icd.methods.bp.likelihood import bounded_mixing
from stream_icd.methods.bp.memberships import (
    Memberships,
    believed_memberships,
    memberships_given_others,
)
from stream_icd.methods.bp.modularity import maximise_modularity, move_nodes, refined
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import (
    COARSER,
    MeasuredPartition,
    exactly,
    measured,
    split_communities,
)
from stream_icd.methods.graphs.weights import comparable

_STEP = 3.0
"""Factor between two resolutions, upwards."""


@uninterrupted()
def find_communities(
    adjacency: csr_array,
    parameters: BpParameters,
    n_communities: int | None = None,
    *,
    seed: int = 0,
    threads: int = 1,
) -> Labels:
    """The communities of a graph: labels (n,) int32, 0..K-1, none empty, each connected.

    adjacency: (n, n) symmetric, positive weights in any unit (`comparable`), zero diagonal, sorted
        rows.
    n_communities: K, 1..n: return exactly K communities, which hold several components of the graph
        if it has too many. None: as many as are found, and nodes without edges are alone.
    seed: equal seeds give equal results, on any number of threads.
    threads: how many work on a graph of at least 50,000 nodes.

    Raises `BadSettings` for a K outside 1..n, and `BadInput` for a weight that is not positive and
    finite.

    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> two = csr_array(np.kron(np.eye(2), triangle))
    >>> find_communities(two, BpParameters()).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    return _found_in(adjacency, parameters, n_communities, seed, threads)[1].labels


@uninterrupted()
def find_memberships(
    adjacency: csr_array,
    parameters: BpParameters,
    n_communities: int | None = None,
    *,
    seed: int = 0,
    threads: int = 1,
) -> tuple[Labels, Memberships]:
    """`find_communities`, and how probable it is that each node belongs to its community."""
    graph, found = _found_in(adjacency, parameters, n_communities, seed, threads)
    if found.beliefs is None:
        return found.labels, memberships_given_others(graph, found.labels)
    return found.labels, believed_memberships(found.beliefs, found.labels)


def _found_in(
    adjacency: csr_array,
    parameters: BpParameters,
    n_communities: int | None,
    seed: int,
    threads: int,
) -> tuple[LevelGraph, MeasuredPartition]:
    n_communities = checked_n_communities(n_communities, adjacency.shape[0])
    graph = finest_level(comparable(adjacency, parameters.weight_exponent))
    if not graph.n_nodes:
        return graph, MeasuredPartition(np.empty(0, np.int32), 0.0, 0.0)
    rng = np.random.default_rng(seed)
    with keep_threads(threads_for(graph.n_nodes, threads)):
        return graph, found_exactly(graph, parameters, n_communities, rng)


def found_exactly(
    graph: LevelGraph, parameters: BpParameters, n_communities: int | None, rng: np.random.Generator
) -> MeasuredPartition:
    """`find_communities` for a graph of at least one node, without rescaling its weights."""
    found, keep_number = _found(graph, parameters, n_communities, rng), n_communities is not None
    may_be_alone = not parameters.search
    labels = connected(graph, found.labels, keep_number=keep_number, may_be_alone=may_be_alone)
    return found._replace(labels=compact(labels)[0])


def _found(
    graph: LevelGraph, parameters: BpParameters, n_communities: int | None, rng: np.random.Generator
) -> MeasuredPartition:
    if parameters.search:
        return _least_description(graph, parameters.sweeps, rng, n_communities)
    resolution, believed = parameters.resolution, parameters.mixing is not None
    labels = maximise_modularity(graph, resolution, rng, iterations=parameters.iterations)
    beliefs = None
    if parameters.mixing is not None:
        k = int(labels.max()) + 1
        model = PlantedModel(parameters.mixing, parameters.size_spread, n_communities or k)
        marginals = believe(graph, labels, k, model, parameters.sweeps)
        labels, beliefs = marginals.likeliest, marginals.beliefs
    if n_communities is not None:
        labels = exactly(graph, labels, n_communities, resolution, rng, believed)
    return measured(graph, labels, resolution)._replace(believed=believed, beliefs=beliefs)


class _Search(NamedTuple):
    """A graph and how it is searched; see `_least_description`."""

    graph: LevelGraph
    pieces: Labels  # (n,): the piece of a community that each node is in
    level: LevelGraph  # the graph of these
    groups: Labels  # (n_pieces,): the group of pieces that each piece is in
    coarse: LevelGraph  # the graph of these
    sweeps: int
    rng: np.random.Generator

    def expanded(self, of_pieces: MeasuredPartition) -> MeasuredPartition:
        return of_pieces._replace(labels=of_pieces.labels[self.pieces])


def _least_description(
    graph: LevelGraph, sweeps: int, rng: np.random.Generator, n_communities: int | None = None
) -> MeasuredPartition:
    """The candidate of least description length, and one community only if no other saves bits.

    sweeps: maximum sweeps of belief propagation.
    n_communities: K, if known. All candidates are brought to K communities before they are
        compared: merging cannot correct its first merges, so a coarser one can become the best.
    """
    labels = np.arange(graph.n_nodes, dtype=np.int32)
    move_nodes(graph, labels, 1.0, rng)
    pieces, level, of_pieces = refined(graph, compact(labels)[0], 1.0, rng)
    of_pieces = maximise_modularity(level, 1.0, rng, of_pieces)
    groups, coarse, _ = refined(level, of_pieces, _STEP, rng)
    search = _Search(graph, pieces, level, groups, coarse, sweeps, rng)
    tried = _by_modularity(search, of_pieces)
    of_nodes = [search.expanded(partition) for partition in tried]
    best = of_nodes[0]
    if graph.n_edges:
        best = min(_by_beliefs(search, tried) + of_nodes, key=lambda partition: partition.bits)
        if best.bits > 0:  # beliefs in what is not there
            best = min(of_nodes, key=lambda partition: partition.bits)
    if n_communities is not None:
        best = _best_with_k(search, [best, *of_nodes], n_communities)
    return best._replace(labels=compact(best.labels)[0])


def _best_with_k(
    search: _Search, partitions: list[MeasuredPartition], n_communities: int
) -> MeasuredPartition:
    """The best of these with exactly K communities, or of beliefs that start from it.

    If none of them saves bits, beliefs start from each.
    """

    def with_k(partition: MeasuredPartition) -> MeasuredPartition:
        gamma = partition.resolution
        labels = exactly(
            search.graph, partition.labels, n_communities, gamma, search.rng, partition.believed
        )
        return _candidate(search.graph, labels, gamma)._replace(
            believed=partition.believed, beliefs=partition.beliefs
        )

    if not search.graph.n_edges:
        return with_k(partitions[0])
    exact = [with_k(partition) for partition in partitions]
    best = min(exact, key=lambda partition: partition.bits)
    starts = [best] if best.bits < 0 else exact
    believed = [_believed(search, start, keep_all=True) for start in starts]
    return with_k(min([*believed, best], key=lambda partition: partition.bits))


def _by_modularity(search: _Search, labels: Labels) -> list[MeasuredPartition]:
    """Partitions of pieces at resolutions around the best one, ascending; `labels` is that at 1."""
    tried = [measured(search.level, labels)]  # a single community counts if no other is found
    if not search.graph.n_edges:
        return tried
    while len(tried) < 2 or tried[-1].bits < tried[-2].bits:
        tried.append(_moved(search, _STEP * tried[-1].resolution))
    if len(tried) == 2:
        for _ in range(2):  # further down, trees seem to have communities of nearly all nodes
            groups, resolution = tried[0].labels, tried[0].resolution / COARSER
            coarse = coarsen(search.level, groups, int(groups.max()) + 1)
            tried.insert(0, _moved(search._replace(groups=groups, coarse=coarse), resolution))
            if tried[0].bits >= tried[1].bits:
                break
    return tried


def _by_beliefs(search: _Search, tried: list[MeasuredPartition]) -> list[MeasuredPartition]:
    """Beliefs that start from the best partition, cut where that shortens its description.

    If no partition saves bits, they start from it and from finer ones, while these are better.
    """
    number = min(range(len(tried)), key=lambda at: tried[at].bits)
    best = tried[number]
    if best.bits < 0:
        k, gamma = int(best.labels.max()) + 1, _STEP * best.resolution
        mixing = bounded_mixing(best.mixing)
        cut = split_communities(search.level, best.labels, k, gamma, mixing, search.rng)
        return [_believed(search, search.expanded(_candidate(search.level, cut, best.resolution)))]
    believed: list[MeasuredPartition] = []
    while len(believed) < 2 or believed[-1].bits < believed[-2].bits:
        if number == len(tried):
            tried = [*tried, _moved(search, _STEP * tried[-1].resolution)]
        believed.append(_believed(search, search.expanded(tried[number])))
        number += 1
    return believed


def _moved(search: _Search, resolution: float) -> MeasuredPartition:
    """Local moves of the groups of pieces, from single groups."""
    labels = maximise_modularity(search.coarse, resolution, search.rng)
    found = _candidate(search.coarse, labels, resolution)
    return found._replace(labels=found.labels[search.groups])


def _candidate(graph: LevelGraph, labels: Labels, resolution: float) -> MeasuredPartition:
    """The partition; a single community has infinite bits, so that others are preferred."""
    partition = measured(graph, labels, resolution)
    return partition._replace(bits=partition.bits or inf)


def _believed(
    search: _Search, start: MeasuredPartition, *, keep_all: bool = False
) -> MeasuredPartition:
    """The most probable communities after belief propagation from those of `start`.

    Where the last sweep still moves half of the nodes, beliefs swing between several states, and
    have no description: the labels are measured instead.

    keep_all: nodes whose community lost all its nodes return to it, which costs bits.
    """
    graph, k = search.graph, int(start.labels.max()) + 1
    model = PlantedModel(bounded_mixing(start.mixing), 1.0, k)
    marginals = believe(graph, start.labels, k, model, search.sweeps)
    likeliest = marginals.likeliest
    labels, n_left = compact(likeliest)
    described = 2 * marginals.unsettled < 1 and n_left > 1
    bits = marginals.bits(graph, k) if described else _candidate(graph, labels, 1.0).bits
    if keep_all and n_left < k:
        lost = np.bincount(likeliest, minlength=k) == 0
        bits -= measured(graph, labels).bits
        labels, _ = compact(np.where(lost[start.labels], start.labels, likeliest))
        bits += measured(graph, labels).bits
    return MeasuredPartition(
        labels, bits, marginals.mixing, start.resolution, True, marginals.beliefs
    )
