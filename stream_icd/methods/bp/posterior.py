"""What is known of the communities of a graph, and the same communities in a later graph.

What is known is the prior of a later window: belief propagation with the remembered beliefs, or one
pass of local moves from the known communities where modularity decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Ids, Labels, Shares
from stream_icd.core.compiled import compiled
from stream_icd.methods.bp.agglomeration import connected
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import LevelGraph, compact, entries_at, links
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

    @classmethod
    def uninformed(cls, n_nodes: int) -> Posterior:
        """All nodes are new."""
        return cls(*uninformed_prior(n_nodes), 0.0, 0.0, False, 1.0)

    @classmethod
    def certain(cls, labels: Labels, mixing: float, resolution: float = 1.0) -> Posterior:
        """Each node is in one community with certainty, or new if its label is `NOBODY`."""
        communities, shares = uninformed_prior(len(labels))
        communities[:, 0], shares[:, 0] = labels, labels >= 0
        return cls(communities, shares, mixing, 0.0, False, resolution).tidied()

    def rearranged(self, at: Ids) -> Posterior:
        """What is known of the nodes `at`; -1 for a node of which nothing is known."""
        new = uninformed_prior(1)  # in the last place, for -1
        communities = np.concatenate([self.communities, new.communities]).take(at, axis=0)
        shares = np.concatenate([self.shares, new.shares]).take(at, axis=0)
        return self._replace(communities=communities, shares=shares).tidied()

    def tidied(self) -> Posterior:
        """Communities 0..K-1 in order of first appearance, each once a node, likeliest first."""
        communities, shares = self.communities.copy(), self.shares.copy()
        _renumber(communities)
        _tidy(communities, shares, 1)  # the first may be a part of the most probable one
        return self._replace(communities=communities, shares=shares)


def initial_posterior(
    graph: LevelGraph, parameters: BpParameters, n_communities: int | None, seed: int
) -> Posterior:
    """The communities of a graph without memory: those of `find_communities`."""
    rng = np.random.default_rng(seed)
    partition = found_exactly(graph, parameters, n_communities, rng)
    labels, k = partition.labels, int(partition.labels.max()) + 1
    mixing = mixing_beyond_chance(graph, labels, k)
    if not partition.believed:
        return Posterior.certain(labels, mixing, partition.resolution)
    model = PlantedModel(bounded_mixing(mixing), parameters.size_spread, n_communities or k)
    marginals = believe(graph, labels, k, model, parameters.sweeps)
    communities, shares = marginals.beliefs
    communities[:, 0] = labels
    return Posterior(
        communities, shares, marginals.mixing, 0.0, True, partition.resolution
    ).tidied()


def next_posterior(
    graph: LevelGraph, parameters: BpParameters, last: Posterior, seed: int
) -> Posterior:
    """The communities of a later graph of the same nodes.

    A node without edges stays in its community, with a smaller probability.
    """
    rng, stay = np.random.default_rng(seed), last.stay or parameters.stay
    if last.believed:
        found = _by_beliefs(graph, parameters, last, stay, rng)
    else:
        start = _proposed(graph, last, last.communities[:, 0] < 0, rng)
        labels = maximise_modularity(graph, last.resolution, rng, start)
        mixing = mixing_beyond_chance(graph, labels, int(labels.max()) + 1)
        found = Posterior.certain(labels, mixing, last.resolution)
    mixing, k = bounded_mixing(found.mixing), found.n_communities
    labels = split_communities(graph, found.likeliest, k, last.resolution, mixing, rng)
    before = last.likeliest
    # Of a community that has come apart, the piece with most of its former nodes is still it.
    goes_on = majority(before, labels, last.n_communities)
    held = (before >= 0) & (goes_on[before] == labels)
    found.communities[:, 0] = connected(
        graph, labels, may_be_alone=not parameters.search, held=held
    )
    # Nodes without edges keep what was known of them, with a smaller probability.
    has_no_edge = graph.indptr[1:] == graph.indptr[:-1]
    idle = np.flatnonzero(has_no_edge & (before >= 0))
    found.shares[idle] = 0.0
    found.shares[idle, 0] = last.shares[idle].sum(axis=1) * np.float32(kept_a_window(stay))
    found.communities[idle, 1:] = NOBODY
    return found.tidied()


def _by_beliefs(
    graph: LevelGraph,
    parameters: BpParameters,
    last: Posterior,
    stay: float,
    rng: np.random.Generator,
) -> Posterior:
    """Belief propagation; nodes start in their known community, or in one that strangers form."""
    likeliest, k = last.likeliest, last.n_communities
    mixing = bounded_mixing(last.mixing)
    start = _proposed(graph, last, _are_strangers(graph, likeliest, mixing), rng)
    n_start = int(start.max()) + 1
    model = PlantedModel(mixing, parameters.size_spread, compact(start)[1])
    recalled = Prior(last.communities, last.shares)
    marginals = believe(
        graph, start, n_start, model, parameters.sweeps, recalled, stay, exact=False
    )
    n_found = max(n_start, k)
    into = merged_communities(graph, marginals.likeliest, n_found, likeliest, k, marginals.mixing)
    communities = np.append(into, np.int32(NOBODY)).take(marginals.communities)  # the last for -1
    communities, shares = tidy(communities, marginals.shares)
    return Posterior(communities, shares, marginals.mixing, marginals.stay, True, last.resolution)


def _are_strangers(graph: LevelGraph, likeliest: Labels, mixing: float) -> NDArray[np.bool_]:
    """Which nodes are new, or have less than half of the edges that a member has."""
    own = links(graph, likeliest, True)
    strangers: NDArray[np.bool_] = 2 * own < (1 - mixing) * graph.strengths
    return strangers | (likeliest < 0)


def _proposed(
    graph: LevelGraph, last: Posterior, strangers: NDArray[np.bool_], rng: np.random.Generator
) -> Labels:
    """Communities that strangers form among themselves, numbered from K on; (n,)."""
    labels, rows = last.likeliest, np.flatnonzero(strangers)
    if not len(rows):
        return labels
    own = _induced(graph, rows)
    labels[rows] = last.n_communities + maximise_modularity(own, last.resolution, rng)
    return labels


def _induced(graph: LevelGraph, rows: Ids) -> LevelGraph:
    """The nodes `rows`, ascending, with their own edges among each other, and their strengths."""
    of_nodes = graph.strengths[rows], graph.n_linked[rows]
    return LevelGraph(*entries_at(graph, rows), *of_nodes, graph.total, graph.n_edges)


def exact_labels(
    graph: LevelGraph, found: Posterior, rows: NDArray[np.int64], n_communities: int, seed: int
) -> Labels:
    """Exactly K communities of the nodes `rows`, which are those of the graph: (len(rows),).

    They keep the labels of the communities that hold most of their nodes; others follow those of
    `found`.
    """
    labels = found.communities[rows, 0].copy()
    rng, start = np.random.default_rng(seed), compact(labels)[0]
    exact = exactly(graph, start, n_communities, found.resolution, rng, found.believed)
    names: Labels = match_labels(exact, labels, n_communities, found.n_communities)
    return names[exact]


def kept_a_window(stay: float) -> float:
    """η for nodes without news of a window, so that each is forgotten eventually."""
    return min(stay, MOST_TRUST)


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
