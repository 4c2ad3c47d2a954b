"""Belief propagation: each node's most probable community, not the single best partition.

docs/method.md has the model and equations (5), (6) and (8): μ is the mixing, vol_c the volume of
community c, 1 + a_c the factor by which an edge inside it is more probable. It lacks two things:

- The expected volume is v̂_c = vol_c^s · (2E/K)^(1 − s) in place of vol_c. With s = 1 communities
  have any size (Prokhorenkova and Tikhonov, WWW 2019), with s = 0 the same: the planted partition
  whose likelihood is modularity (Newman 2016). The prior is n_c^s exp(−(1 − μ) d_i vol_c / v̂_c).
- An edge of weight w counts as w edges: a_c becomes (1 + a_c)^w − 1. `find_communities` first
  scales the weights to mean 1; in another unit they would count as more or fewer edges.
"""

from __future__ import annotations

from functools import partial
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import LARGE, compiled, in_threads, unsigned
from stream_icd.methods.bp.level_graph import LevelGraph
from stream_icd.methods.bp.likelihood import bounded_mixing
from stream_icd.methods.bp.sweep import (
    LEAST_SHARE,
    MOST_TRUST,
    N_KEPT,
    TOLERANCE,
    Beliefs,
    CommunityField,
    Prior,
    Visits,
    sweep,
)

_N_BLOCKS = 4
"""Blocks of a large graph, with about as many entries each: the most threads of a sweep."""

OVERCONFIDENCE = 3.0
"""Exponent of η in `trusted`; chosen on streams in which 2 to 40 % of the nodes move."""


class PlantedModel(NamedTuple):
    """The planted model."""

    mixing: float  # μ in (0, 1) at first; the sweeps learn the final one from the graph
    size_spread: float  # s in [0, 1]
    n_communities: int  # K


class Marginals(NamedTuple):
    """The result of belief propagation: `communities` and `shares` as in `Beliefs`.

    saved: log Z in nats: how much more probable the edges are, summed over all partitions, than
        without communities. It means little while many nodes still move.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]
    mixing: float  # the learned μ
    stay: float  # the learned η
    saved: float
    unsettled: float  # the fraction of the nodes that the last sweep moved

    @property
    def likeliest(self) -> Labels:
        """The most probable community of each node, (n,): of `start`; some may become empty."""
        return self.communities[:, 0].copy()

    @property
    def beliefs(self) -> Prior:
        """What is believed of each node, for those that remember it."""
        return Prior(self.communities, self.shares)


def uninformed_prior(n_nodes: int) -> Prior:
    """The empty recollection, for the first window."""
    return Prior(np.full((n_nodes, N_KEPT), -1, np.int32), np.zeros((n_nodes, N_KEPT), np.float32))


def believe(
    graph: LevelGraph,
    start: Labels,
    n_communities: int,
    model: PlantedModel,
    max_sweeps: int,
    recalled: Prior | None = None,
    stay: float = 0.0,
    learn_stay: bool = True,
    exact: bool = True,
) -> Marginals:
    """The beliefs about each node, over the communities of `start` and `recalled`.

    A node stays in its start community if it has no edges, or if its evidence exceeds the range of
    floating point.

    stay: initial η, in 0..1; with 0, `recalled` is not used.
    learn_stay: whether the sweeps correct η, and weigh the shares of `recalled` by `trusted`; else
        the shares are used as they are, times η.
    exact: whether the last sweep visits all nodes, so that `saved` is exact; else it is 0. The
        sweeps before visit those of which a neighbour's belief has changed.
    """
    recalled = uninformed_prior(len(start)) if recalled is None else recalled
    for labels, least in ((start, 0), (recalled.communities, -1)):
        if not least <= labels.min() <= labels.max() < n_communities:
            raise ValueError(
                f"labels {labels.min()}..{labels.max()} are not all in {least}..{n_communities}-1"
            )
    n_nodes, mixing, saved, unsettled = len(start), model.mixing, 0.0, 0.0
    n_blocks = _N_BLOCKS if n_nodes >= LARGE else 1
    inner = np.searchsorted(graph.indptr, graph.indptr[-1] * np.arange(1, n_blocks) / n_blocks)
    bounds, copies = [0, *inner.tolist(), n_nodes], min(n_blocks, 2)
    certain = uninformed_prior(n_nodes)  # each node of its start community
    certain.communities[:, 0], certain.shares[:, 0] = start, 1.0
    beliefs = Beliefs(
        np.concatenate([certain.communities] * copies),
        certain.shares,
        np.empty((copies * len(graph.indices), N_KEPT), np.float32),
        np.ones(copies * n_nodes, np.bool_),
    )
    opposite, is_linked = _opposite_entries(graph), graph.indptr[1:] > graph.indptr[:-1]
    weight, is_due = float(graph.strengths[is_linked].sum()), np.zeros(copies * n_nodes, np.bool_)
    is_due[:n_nodes] = is_linked
    within, evidence, stayed = (np.zeros(n) for n in (n_nodes, n_nodes * exact, n_nodes))
    visits = Visits(within, evidence, stayed, is_due)
    linked_shares = recalled.shares.compress(is_linked, axis=0)
    remembered = float(linked_shares.sum(dtype=np.float64)) if stay > 0 else 0.0
    stay = stay if remembered else 0.0

    def visit(first: int, end: int) -> int:
        state = graph, opposite, beliefs, field, visits, recalled
        return int(sweep(*state, trust, stay, first, end))

    settled = False
    for number in range(max_sweeps):
        field = _expected(beliefs, graph, n_communities, mixing, model)
        trust = float(trusted(stay)) if learn_stay else stay
        if exact and (settled or number == max_sweeps - 1):
            is_due[:n_nodes] = is_linked
        n_changed = sum(in_threads(visit, bounds))
        if copies > 1:
            in_threads(partial(_deliver, graph, beliefs, is_due), bounds)
        if exact:
            saved = float(evidence.sum()) + weight / 2 * log(mixing)
        unsettled = n_changed / n_nodes
        if weight > 0:
            mixing = bounded_mixing(1.0 - float(within.sum()) / weight)
        if stay > 0 and learn_stay:
            stay = min(float(stayed.sum()) / remembered, 1.0)
        if settled:
            break
        settled = number > 0 and n_changed <= TOLERANCE * n_nodes
        if settled and not exact:
            break
    return Marginals(beliefs.communities[:n_nodes], beliefs.shares, mixing, stay, saved, unsettled)


@compiled()
def _deliver(
    graph: LevelGraph, beliefs: Beliefs, is_due: NDArray[np.bool_], first: int, end: int
) -> None:
    """Show the nodes first..end-1 what other blocks have sent, and others what they believe."""
    n_nodes, n_entries = len(graph.strengths), len(graph.indices)
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    for node in range(first, end):
        for entry in range(indptr[node], indptr[node + 1]):
            sender = indices[entry]
            if not first <= sender < end:
                for kept in range(N_KEPT):
                    beliefs.messages[entry, kept] = beliefs.messages[entry + n_entries, kept]
        for kept in range(N_KEPT):
            beliefs.communities[node + n_nodes, kept] = beliefs.communities[node, kept]
        beliefs.certain[node + n_nodes] = beliefs.certain[node]
        is_due[node] |= is_due[node + n_nodes]
        is_due[node + n_nodes] = False


@compiled()
def _opposite_entries(graph: LevelGraph) -> NDArray[np.int32]:
    """The position of (j, i) for each entry (i, j) of a symmetric matrix with sorted rows: (2E,).

    Raises `ValueError` for any other matrix: messages would be written outside their array.
    """
    indptr, indices = unsigned(graph.indptr), unsigned(graph.indices)
    free = indptr[:-1].copy()  # of each row, the first entry whose opposite is not known
    opposite = np.empty(len(indices), np.int32)
    for node in range(len(free)):
        for entry in range(free[node], indptr[node + 1]):
            column = indices[entry]
            place = free[column]
            if place >= indptr[column + 1] or indices[place] != node:
                raise ValueError("the adjacency is not symmetric with sorted rows")
            opposite[entry], opposite[place] = place, entry
            free[column] += 1
    return opposite


@compiled(error_model="numpy")
def _expected(
    beliefs: Beliefs, graph: LevelGraph, n_communities: int, mixing: float, model: PlantedModel
) -> CommunityField:
    """All that sweeps need of each community, from the current beliefs."""
    sizes, volumes = expected_sizes(
        beliefs.communities, beliefs.shares, graph.strengths, n_communities
    )
    volumes = np.maximum(volumes, LEAST_SHARE * graph.total / n_communities)
    mean = (graph.total / model.n_communities) ** (1 - model.size_spread)
    expected = volumes**model.size_spread * mean
    excess = (1 - mixing) / mixing * graph.total / expected
    prior = np.maximum(sizes, LEAST_SHARE) ** model.size_spread
    pull = (1 - mixing) * (1 - volumes / expected)
    return CommunityField(prior / prior.sum(), excess, np.log1p(excess), pull)


@compiled()
def expected_sizes(
    communities: NDArray[np.int32], shares: NDArray[np.float32], values: Floats, n_communities: int
) -> tuple[Floats, Floats]:
    """Of each community, the expected number of its nodes, and the expected sum of their values."""
    sizes, sums = np.zeros(n_communities), np.zeros(n_communities)
    for node, value in enumerate(values):
        for kept in range(N_KEPT):
            c, share = communities[node, kept], shares[node, kept]
            if c < 0:
                break
            sizes[c] += share
            sums[c] += value * share
    return sizes, sums


@compiled()
def trusted(stay: float) -> float:
    """The weight of remembered beliefs in the prior, below η: `OVERCONFIDENCE`, `MOST_TRUST`."""
    trust: float = stay**OVERCONFIDENCE
    return min(trust, MOST_TRUST)
