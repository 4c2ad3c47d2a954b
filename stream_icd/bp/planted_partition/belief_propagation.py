"""Belief propagation: each node's most probable community, not the single best partition.

The model has communities of volume vol_c (the sum of their strengths; 2E in total) and a mixing μ.
A pair of nodes i, j has on average μ d_i d_j / 2E edges. If both are in community c, it has
1 + a_c times as many, with a_c = (1 − μ)/μ · 2E / v̂_c. The expected volume under the model is
v̂_c = vol_c^s · (2E/K)^(1 − s). With s = 1 communities have any size: the independent LFR model of
Prokhorenkova and Tikhonov (WWW 2019). With s = 0 all have the same size: the planted partition
whose likelihood is modularity (Newman 2016).

A node's message to its neighbour j is its belief without j's own influence (Decelle, Krzakala,
Moore and Zdeborová 2011). Beliefs are sparse: each node keeps only its most probable communities.

    ψ_{i→j}(c) ∝ n_c^s · exp(−(1 − μ) d_i vol_c / v̂_c) · Π_{k ∈ N(i) \\ j} (1 + a_c ψ_{k→i}(c))

The mixing is learned from the graph by expectation maximisation, as in Decelle et al. After each
sweep, 1 − μ is the fraction of the edge weight that exists because both ends share a community:
the mean of x / (1 + x) with x = Σ_c a_c ψ_{i→j}(c) ψ_{j→i}(c).

In a stream, the beliefs of the last window are each node's prior (the dynamic model of Ghasemian,
Zhang, Clauset, Moore and Peel, Physical Review X 6, 031005, forward in time). The prior of node i
is (1 − η) times n_c^s, normalised to sum to 1, plus η times its remembered belief b_i(c). The stay
probability η is learned like the mixing: the fraction of remembered belief that still holds. The
remembered beliefs are overconfident, so the prior uses a lower probability (`trusted`).

An edge of weight w counts as w edges: a_c becomes (1 + a_c)^w − 1. `find_communities` first scales
the weights to mean 1; in another unit they would count as more or fewer edges.
"""

from __future__ import annotations

from math import log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.bp.planted_partition.likelihood import MIXING_RANGE
from stream_icd.bp.planted_partition.sweep import (
    MOST_TRUST,
    N_KEPT,
    Beliefs,
    Field,
    Prior,
    Scratch,
    Visits,
    sweep,
)
from stream_icd.graphs.compiled import compiled

SETTLED = 5e-3
"""Sweeps end when less than this fraction of the nodes changes its most probable community."""

OVERCONFIDENCE = 3.0
"""Exponent of η in `trusted`; chosen on streams in which 2 to 40 % of the nodes move."""


class Model(NamedTuple):
    """The planted model: mixing μ in (0, 1), size spread s in [0, 1], number of communities K.

    The mixing is the initial value; the sweeps learn the final one from the graph.
    """

    mixing: float
    size_spread: float
    n_communities: int


class Marginals(NamedTuple):
    """The result of belief propagation: `communities` and `shares` as in `Beliefs`.

    `mixing` and `stay` are the learned μ and η. `saved` is the log evidence in nats: how much more
    probable the edges are under the model, summed over all partitions, than without communities.
    `unsettled` is the fraction of the nodes that the last sweep moved: `saved` means little while
    many still move.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]
    mixing: float
    stay: float
    saved: float = 0.0
    unsettled: float = 0.0


def uninformed_prior(n_nodes: int) -> Prior:
    """The empty recollection, for the first window."""
    return Prior(np.full((n_nodes, N_KEPT), -1, np.int32), np.zeros((n_nodes, N_KEPT), np.float32))


def certainly(labels: Labels) -> Marginals:
    """Beliefs that put each node in one community with certainty."""
    communities, shares = uninformed_prior(len(labels))
    communities[:, 0], shares[:, 0] = labels, 1.0
    return Marginals(communities, shares, mixing=0.0, stay=0.0)


def likeliest_communities(
    graph: LevelGraph, start: Labels, n_communities: int, model: Model, max_sweeps: int
) -> Labels:
    """The most probable community of each node, (n,): labels of `start`; some may become empty."""
    return believe(graph, start, n_communities, model, max_sweeps).communities[:, 0].copy()


def believe(
    graph: LevelGraph,
    start: Labels,
    n_communities: int,
    model: Model,
    max_sweeps: int,
    recalled: Prior | None = None,
    stay: float = 0.0,
    learn_stay: bool = True,
    tolerance: float = 0.0,
) -> Marginals:
    """The beliefs about each node, over the communities of `start` and `recalled`.

    A node stays in its start community if it has no edges, or if its evidence exceeds the range of
    floating point.

    stay: initial η, in 0..1; with 0, `recalled` is not used.
    learn_stay: whether the sweeps correct η, and weigh the shares of `recalled` by `trusted`; else
        the shares are used as they are, times η.
    tolerance: from the second sweep on, only nodes are visited of which a neighbour's belief has
        changed by more; with 0, all nodes are, and `saved` is exact.
    """
    recalled = uninformed_prior(len(start)) if recalled is None else recalled
    for labels, least in ((start, 0), (recalled.communities, -1)):
        if not least <= labels.min() <= labels.max() < n_communities:
            raise ValueError(
                f"labels {labels.min()}..{labels.max()} are not all in {least}..{n_communities}-1"
            )
    beliefs, *learned = _propagate(
        graph, start, n_communities, model, max_sweeps, recalled, stay, learn_stay, tolerance
    )
    return Marginals(beliefs.communities, beliefs.shares, *learned)


@compiled(error_model="numpy")
def _propagate(
    graph: LevelGraph,
    start: Labels,
    n_communities: int,
    model: Model,
    max_sweeps: int,
    recalled: Prior,
    stay: float,
    learn_stay: bool,
    tolerance: float,
) -> tuple[Beliefs, float, float, float, float]:
    n_nodes, saved, unsettled, mixing = len(start), 0.0, 0.0, model.mixing
    beliefs, field = _start(graph, start, n_communities)
    opposite = _opposite_entries(graph)
    degrees = graph.indptr[1:] - graph.indptr[:-1]
    is_linked = degrees > 0
    weight = graph.strengths[is_linked].sum()
    visits = Visits(np.zeros(n_nodes), np.zeros(n_nodes), np.zeros(n_nodes), is_linked.copy())
    scratch = Scratch(
        np.zeros(n_communities),
        np.ones(n_communities),
        np.empty(n_communities, np.int32),
        np.empty((degrees.max(), N_KEPT)),
        np.empty(N_KEPT, np.int32),
        np.empty(N_KEPT),
    )
    remembered = _remembered(graph, recalled) if stay > 0 else 0.0
    stay = stay if remembered else 0.0
    for number in range(max_sweeps):
        _expect(field, graph.total, mixing, model)
        trust = trusted(stay) if learn_stay else stay
        if not tolerance:
            visits.is_due[:] = is_linked
        n_changed = sweep(
            graph, opposite, beliefs, field, visits, scratch, recalled, trust, stay, tolerance
        )
        saved = visits.evidence.sum() + weight / 2 * log(mixing)
        unsettled = n_changed / n_nodes
        if weight > 0:
            mixing = 1.0 - visits.within.sum() / weight
            mixing = min(max(mixing, MIXING_RANGE[0]), MIXING_RANGE[1])
        if stay > 0 and learn_stay:
            stay = min(visits.stayed.sum() / remembered, 1.0)
        if number and n_changed <= SETTLED * n_nodes:
            break
    return beliefs, mixing, stay, saved, unsettled


@compiled()
def _remembered(graph: LevelGraph, recalled: Prior) -> float:
    """Sum of the remembered shares over all nodes that have edges."""
    remembered = 0.0
    for node in range(len(recalled.shares)):
        if graph.indptr[node] < graph.indptr[node + 1]:
            remembered += recalled.shares[node].sum()
    return remembered


@compiled()
def _start(graph: LevelGraph, start: Labels, n_communities: int) -> tuple[Beliefs, Field]:
    """Each node is certain of its start community."""
    beliefs = Beliefs(
        np.full((len(start), N_KEPT), -1, np.int32),
        np.zeros((len(start), N_KEPT), np.float32),
        np.empty((len(graph.indices), N_KEPT), np.float32),
        np.ones(len(start), np.bool_),
    )
    beliefs.communities[:, 0] = start
    beliefs.shares[:, 0] = 1.0
    volumes, sizes = np.zeros(n_communities), np.zeros(n_communities)
    for node, community in enumerate(start):
        volumes[community] += graph.strengths[node]
        sizes[community] += 1.0
    unknown = np.empty((4, n_communities))
    return beliefs, Field(volumes, sizes, unknown[0], unknown[1], unknown[2], unknown[3])


@compiled()
def _opposite_entries(graph: LevelGraph) -> NDArray[np.int32]:
    """The position of (j, i) for each entry (i, j) of a symmetric matrix with sorted rows: (2E,).

    Raises `ValueError` for any other matrix: messages would be written outside their array.
    """
    free = graph.indptr[:-1].copy()
    opposite = np.empty(len(graph.indices), np.int32)
    for node in range(len(free)):
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            column = graph.indices[entry]
            place = free[column]
            if place >= graph.indptr[column + 1] or graph.indices[place] != node:
                raise ValueError("the adjacency is not symmetric with sorted rows")
            opposite[entry] = place
            free[column] += 1
    return opposite


@compiled(error_model="numpy")
def _expect(field: Field, total: float, mixing: float, model: Model) -> None:
    """Update prior and excess of each community from the current volumes and sizes."""
    n_communities = len(field.volumes)
    mean = (total / model.n_communities) ** (1 - model.size_spread)
    odds = (1 - mixing) / mixing
    for c in range(n_communities):
        volume = max(field.volumes[c], 1e-3 * total / n_communities)
        expected = volume**model.size_spread * mean
        field.excess[c] = odds * total / expected
        field.log_odds[c] = log1p(field.excess[c])
        field.prior[c] = max(field.sizes[c], 1e-3) ** model.size_spread
        field.pull[c] = (1 - mixing) * (1 - volume / expected)
    field.prior[:] /= field.prior.sum()


@compiled()
def trusted(stay: float) -> float:
    """The weight of remembered beliefs in the prior, below η: `OVERCONFIDENCE`, `MOST_TRUST`."""
    trust: float = stay**OVERCONFIDENCE
    return min(trust, MOST_TRUST)
