"""What is known of the communities of a graph, and the same communities in a later graph.

What is known is the prior of a later window: belief propagation with the remembered beliefs, or one
pass of local moves from the known communities where modularity decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.core.compiled import compiled
from stream_icd.methods.bp.agglomeration import connected
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import LevelGraph, compact, induced, links
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_beyond_chance
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import (
    exactly,
    majority,
    match_labels,
    merged_communities,
    split_communities,
)
from stream_icd.methods.bp.prior import MOST_TRUST, Prior, uninformed_prior

Shares = NDArray[np.float32]


class Posterior(NamedTuple):
    """The communities of the nodes of a graph.

    communities: (n, N_KEPT), 0..K-1, most probable first, `NOBODY` in unused places; all of 0..K-1
        are the most probable community of a node, in order of first appearance. A node that is new
        has none.
    shares: (n, N_KEPT), their probabilities; a row adds up to 1 at most.
    """

    communities: Labels
    shares: Shares
    mixing: float  # μ, the fraction of the edge weight between communities, beyond chance
    stay: float  # η, the fraction of the remembered beliefs that held; 0 if there were none
    believed: bool  # True if belief propagation decided, False if modularity did
    resolution: float  # γ at which local moves found the communities

    @property
    def likeliest(self) -> Labels:
        """The most probable community of each node, (n,)."""
        return self.communities[:, 0].copy()

    @property
    def n_communities(self) -> int:
        """K."""
        return int(self.communities.max(initial=NOBODY)) + 1

    def rearranged(self, at: Ids) -> Posterior:
        """What is known of the nodes `at`; -1 for a node of which nothing is known."""
        new = uninformed_prior(1)  # in the last place, for -1
        communities = np.concatenate([self.communities, new.communities]).take(at, axis=0)
        shares = np.concatenate([self.shares, new.shares]).take(at, axis=0)
        return tidied(self._replace(communities=communities, shares=shares))


def uninformed(n_nodes: int) -> Posterior:
    """All nodes are new."""
    return Posterior(*uninformed_prior(n_nodes), 0.0, 0.0, False, 1.0)


def certain_posterior(labels: Labels, mixing: float, resolution: float = 1.0) -> Posterior:
    """Each node is in one community with certainty, or new if its label is `NOBODY`."""
    communities, shares = uninformed_prior(len(labels))
    communities[:, 0], shares[:, 0] = labels, labels >= 0
    return tidied(Posterior(communities, shares, mixing, 0.0, False, resolution))


def initial_posterior(
    graph: LevelGraph, parameters: BpParameters, n_communities: int | None, seed: int
) -> Posterior:
    """The communities of a graph without memory: those of `find_communities`."""
    rng = np.random.default_rng(seed)
    partition = found_exactly(graph, parameters, n_communities, rng)
    labels, k = partition.labels, int(partition.labels.max()) + 1
    mixing = mixing_beyond_chance(graph, labels, k)
    if not partition.believed:
        return certain_posterior(labels, mixing, partition.resolution)
    model = PlantedModel(bounded_mixing(mixing), parameters.size_spread, n_communities or k)
    believed = believe(graph, labels, k, model, parameters.sweeps)
    believed.communities[:, 0] = labels
    beliefs = believed.communities, believed.shares, believed.mixing
    return tidied(Posterior(*beliefs, 0.0, True, partition.resolution))


def next_posterior(
    graph: LevelGraph, parameters: BpParameters, known: Posterior, seed: int
) -> Posterior:
    """The communities of a later graph of the same nodes.

    A node without edges stays in its community, with a smaller probability.
    """
    rng, kept = np.random.default_rng(seed), known.stay or parameters.stay
    if known.believed:
        again = _by_beliefs(graph, parameters, known, kept, rng)
    else:
        start = _proposed(graph, known, known.communities[:, 0] < 0, rng)
        labels = maximise_modularity(graph, known.resolution, rng, start)
        mixing = mixing_beyond_chance(graph, labels, int(labels.max()) + 1)
        again = certain_posterior(labels, mixing, known.resolution)
    mixing, k = bounded_mixing(again.mixing), again.n_communities
    labels = split_communities(graph, again.likeliest, k, known.resolution, mixing, rng)
    before = known.likeliest
    held = (before >= 0) & (majority(before, labels, known.n_communities)[before] == labels)
    again.communities[:, 0] = connected(
        graph, labels, may_be_alone=not parameters.search, held=held
    )
    # Nodes without edges keep what was known of them, with a smaller probability.
    has_no_edge = graph.indptr[1:] == graph.indptr[:-1]
    idle = np.flatnonzero(has_no_edge & (known.communities[:, 0] >= 0))
    again.shares[idle] = 0.0
    again.shares[idle, 0] = known.shares[idle].sum(axis=1) * np.float32(kept_a_window(kept))
    again.communities[idle, 1:] = NOBODY
    return tidied(again)


def _by_beliefs(
    graph: LevelGraph,
    parameters: BpParameters,
    known: Posterior,
    stay: float,
    rng: np.random.Generator,
) -> Posterior:
    """Belief propagation; nodes start in their known community, or in one that strangers form."""
    likeliest, k = known.likeliest, known.n_communities
    mixing = bounded_mixing(known.mixing)
    start = _proposed(graph, known, _are_strangers(graph, likeliest, mixing), rng)
    n_start = int(start.max()) + 1
    model = PlantedModel(mixing, parameters.size_spread, compact(start)[1])
    beliefs = start, n_start, model, parameters.sweeps, Prior(known.communities, known.shares), stay
    marginals = believe(graph, *beliefs, exact=False)
    n_found = max(n_start, k)
    into = merged_communities(graph, marginals.likeliest, n_found, likeliest, k, marginals.mixing)
    communities = np.append(into, np.int32(NOBODY)).take(marginals.communities)  # the last for -1
    communities, shares = tidy(communities, marginals.shares)
    return Posterior(communities, shares, marginals.mixing, marginals.stay, True, known.resolution)


def _are_strangers(graph: LevelGraph, likeliest: Labels, mixing: float) -> NDArray[np.bool_]:
    """Which nodes are new, or have less than half of the edges that a member has."""
    own = links(graph, likeliest, True)
    strangers: NDArray[np.bool_] = 2 * own < (1 - mixing) * graph.strengths
    return strangers | (likeliest < 0)


def _proposed(
    graph: LevelGraph, known: Posterior, strangers: NDArray[np.bool_], rng: np.random.Generator
) -> Labels:
    """Communities that strangers form among themselves, numbered from K on; (n,)."""
    labels, rows = known.likeliest, np.flatnonzero(strangers)
    if not len(rows):
        return labels
    own = induced(graph, rows)
    labels[rows] = known.n_communities + maximise_modularity(own, known.resolution, rng)
    return labels


def with_exactly(
    graph: LevelGraph, known: Posterior, rows: NDArray[np.int64], n_communities: int, seed: int
) -> Posterior:
    """The same with exactly K communities among the nodes `rows`, which are those of the graph."""
    communities = known.communities.copy()
    communities[rows, 0] = exact_labels(graph, known, rows, n_communities, seed)
    return tidied(known._replace(communities=communities))


def exact_labels(
    graph: LevelGraph, known: Posterior, rows: NDArray[np.int64], n_communities: int, seed: int
) -> Labels:
    """Exactly K communities of the nodes `rows`, which are those of the graph: (len(rows),).

    They keep the labels of the communities that hold most of their nodes; others follow `known`'s.
    """
    labels = known.communities[rows, 0].copy()
    rng, start = np.random.default_rng(seed), compact(labels)[0]
    exact = exactly(graph, start, n_communities, known.resolution, rng, known.believed)
    names: Labels = match_labels(exact, labels, n_communities, known.n_communities)
    return names[exact]


def kept_a_window(stay: float) -> float:
    """η for nodes without news of a window, so that each is forgotten eventually."""
    return min(stay, MOST_TRUST)


def tidied(known: Posterior) -> Posterior:
    """Communities 0..K-1 in order of first appearance, each once a node, most probable first."""
    communities, shares = known.communities.copy(), known.shares.copy()
    _renumber(communities)
    _tidy(communities, shares, 1)  # the first may be a part of the most probable one
    return known._replace(communities=communities, shares=shares)


@compiled()
def _renumber(names: Labels) -> None:
    """Number the most probable communities in place, by their first nodes; others: `NOBODY`."""
    number, k = np.full(names.max() + 1 if len(names) else 0, NOBODY, np.int32), 0
    for name in names[:, 0]:
        if name >= 0 and number[name] < 0:
            number[name], k = k, k + 1
    for row in range(len(names)):
        for place in range(names.shape[1]):
            if names[row, place] >= 0:
                names[row, place] = number[names[row, place]]


def tidy(names: Labels, shares: Shares) -> tuple[Labels, Shares]:
    """The same beliefs with each community once, most probable first, unused places last."""
    names, shares = names.copy(order="C"), shares.copy(order="C")
    _tidy(names, shares, 0)
    return names, shares


@compiled()
def _tidy(names: Labels, shares: Shares, first: int) -> None:
    """Sort the beliefs of each node in place, from `first` on; those of one community add up."""
    for row in range(len(names)):
        n_used = 0
        for place in range(names.shape[1]):
            name, share = names[row, place], shares[row, place]
            names[row, place], shares[row, place] = NOBODY, 0.0
            if name < 0:
                continue
            at = 0
            while at < n_used and names[row, at] != name:
                at += 1
            if at == n_used:
                names[row, at], shares[row, at] = name, np.float32(0.0)
                n_used += 1
            shares[row, at] += share
        for place in range(first + 1, n_used):
            name, share, at = names[row, place], shares[row, place], place
            while at > first and shares[row, at - 1] < share:
                names[row, at], shares[row, at] = names[row, at - 1], shares[row, at - 1]
                at -= 1
            names[row, at], shares[row, at] = name, share
