"""How good a partition of a graph is, by its edges: those that it is of, or hidden ones.

All are made of two sums per community. The ICD paper states this normalised cut; its authors'
scripts, and so its tables, have another, in `benchmarks/lab/ncut_within.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import gammaln, xlogy

from stream_icd.core.arrays import NOBODY, AnyLabels, Floats, Ids, as_labels
from stream_icd.core.errors import BadSettings

_SPLITS = 2
"""Number of tenths of the edges that `mean_hidden_edge_score` hides, one after the other."""

_HALVINGS = 40
"""Steps of the bisection for μ, which leave an error of 1e-12."""


class CommunityWeights(NamedTuple):
    """Sums over each community's nodes, both (K,) float64; their difference is its cut."""

    volume: Floats  # of the degrees
    within: Floats  # of the weights inside, each edge from both of its ends

    @classmethod
    def of(cls, adjacency: csr_array, communities: AnyLabels) -> CommunityWeights:
        """Those of these communities, in time and memory O(E).

        If the sum of the weights would overflow, all are first divided by one power of two: the
        metrics computed from these sums do not depend on the weights' unit.

        adjacency: (n, n) symmetric, non-negative weights.
        """
        if not issparse(adjacency) or adjacency.format != "csr":
            kind = type(adjacency).__name__
            raise BadSettings(f"adjacency must be a sparse CSR array, not {kind}")
        labels = as_labels(communities)
        if adjacency.shape != (len(labels), len(labels)):
            raise BadSettings(
                f"{len(labels)} communities' labels need an adjacency of as many rows and columns, "
                f"not {adjacency.shape}"
            )
        sources, weights = np.repeat(labels, np.diff(adjacency.indptr)), adjacency.data  # (2E,)
        with np.errstate(over="ignore"):
            # By a power of two, which changes no digit.
            if not np.isfinite(2 * weights.sum()):
                weights = np.ldexp(weights, -100)
        inside = sources == labels.take(adjacency.indices)
        k = int(labels.max(initial=-1)) + 1
        volume = np.bincount(sources, weights, k)
        within = np.bincount(sources, weights * inside, k)  # faster than to choose entries
        return cls(volume.astype(np.float64), within.astype(np.float64))

    def modularity(self, resolution: float = 1.0) -> float:
        """Q of the communities; see `modularity`."""
        total = self.volume.sum()
        if total == 0:
            return 0.0
        by_chance = resolution * ((self.volume / total) ** 2).sum()
        return float(self.within.sum() / total - by_chance)

    def ncut(self) -> float:
        """The normalised cut of the communities; see `ncut`."""
        linked = self.volume > 0
        return float(0.5 * (1 - self.within[linked] / self.volume[linked]).sum())

    def bits_per_edge(self, sizes: Ids | Floats, n_edges: float) -> float:
        """The description length of the communities, (K,), some may be empty; see there.

        sizes: number of nodes that have edges.
        """
        total = self.volume.sum()  # 2E
        linked = sizes > 0
        if total == 0 or linked.sum() == 1:
            return 0.0
        inside, share = self.within[linked] / total, self.volume[linked] / total
        # Rounding may leave the sum a little above 1.
        mixing = max(1 - inside.sum(), 0.0)
        # Mean log probability of an edge, minus that without communities.
        gain = xlogy(mixing, mixing) + (inside * np.log(mixing + (1 - mixing) / share)).sum()
        return float((partition_code(sizes[linked]) - n_edges * gain) / n_edges / np.log(2))


def modularity(adjacency: csr_array, communities: AnyLabels, resolution: float = 1.0) -> float:
    """Q = Σ_c [w_c / 2m − γ (vol_c / 2m)²], Newman and Girvan (2004), weighted.

    w_c is the weight inside community c from both ends, vol_c the sum of its degrees, 2m the sum of
    all degrees, γ the resolution (Reichardt and Bornholdt, 2006). At γ = 1, Q is in −1/2..1, and a
    single community has Q = 0. A graph without edges has Q = 0.

    adjacency: (n, n) symmetric, zero diagonal.
    """
    return CommunityWeights.of(adjacency, communities).modularity(resolution)


def ncut(adjacency: csr_array, communities: AnyLabels) -> float:
    """½ Σ_c cut(c) / vol(c), in 0..K/2 (ICD paper, equation 1; Shi and Malik, 2000).

    cut(c) is the weight of the edges that leave community c, vol(c) the sum of its degrees. A
    community of isolated nodes adds 0, so a graph without edges has 0.

    adjacency: (n, n) symmetric, zero diagonal.
    """
    return CommunityWeights.of(adjacency, communities).ncut()


def description_length(adjacency: csr_array, communities: AnyLabels) -> float:
    """Bits per edge to describe the graph with these communities, minus those without any.

    A value below 0 is evidence for the communities: they save more bits than they cost. A single
    community scores 0, and so does a graph without edges. Of two partitions, the one with the lower
    description length explains the graph better, even if their numbers of communities differ.

    The edges are described by the planted model of independent LFR graphs (Prokhorenkova and
    Tikhonov, "Community detection through likelihood optimization", WWW 2019), with the mixing of
    the partition itself, μ = m_out / E. In nats:

        −[m_out log(μ/2E) + Σ_c m_c log(μ/2E + (1 − μ)/vol_c) + E log 2E]

    m_c is the number of edges inside community c, m_out of those between communities, vol_c the
    sum of the degrees. The term E log 2E is the cost of the edges without communities. The
    partition costs log N! − Σ_c log n_c! for the community of each node, log C(N − 1, K − 1) for
    the sizes and log N for K (minimum description length of a partition: Peixoto, "Hierarchical
    block structures and high-resolution model selection in large networks", Physical Review X
    2014).

    Weights count relative to their mean, so their unit does not matter. Nodes without edges are
    ignored: the graph has no evidence about them. Time and memory are O(E).

    adjacency: (n, n) symmetric, zero diagonal.

    >>> clique = np.ones((9, 9)) - np.eye(9)
    >>> graph = csr_array(np.kron(np.eye(4), clique))
    >>> round(description_length(graph, np.arange(36) // 9), 2)
    -1.43
    >>> description_length(graph, np.zeros(36, np.int32))
    0.0
    """
    weights = CommunityWeights.of(adjacency, communities)
    has_edges = csr_array(adjacency).sum(axis=1) > 0  # (n,), also of a csr_matrix
    sizes = np.bincount(as_labels(communities)[has_edges], minlength=len(weights.volume))
    return weights.bits_per_edge(sizes, np.count_nonzero(adjacency.data) / 2)


def partition_code(sizes: Ids | Floats) -> float:
    """Nats to encode which of N nodes are in which of K communities; sizes (K,) are positive."""
    n_nodes, k = sizes.sum(), len(sizes)
    places = gammaln(n_nodes + 1) - gammaln(sizes + 1).sum()
    return float(places + _code_of_sizes(n_nodes, k) + np.log(n_nodes))


def _code_of_sizes(n_nodes: float, k: ArrayLike) -> Floats:
    """Nats to encode the sizes of K communities of N nodes, for each K: log C(N − 1, K − 1)."""
    nats: Floats = gammaln(n_nodes) - gammaln(k) - gammaln(n_nodes - np.asarray(k) + 1)
    return nats


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """The edges of a graph, described by its communities: what other communities would cost."""

    sums: Floats  # (3, K): number of nodes with edges, volume, within (`CommunityWeights`)
    n_edges: float

    def lost_without_move(
        self, group: Floats, to_now: Floats, to_old: Floats, now: Ids, old: Ids
    ) -> Floats:
        """Return the bits that are lost if each group were where it was, `(m,)`."""
        if not len(now):
            return np.zeros(0)
        existed = old != NOBODY
        source, target = self.sums[:, now], np.where(existed, self.sums[:, old], 0.0)
        without, with_group = source - group, target + group
        without[2] -= 2 * to_now
        with_group[2] += np.where(existed, 2 * to_old, 0.0)
        return self._lost([source, target], [without, with_group])

    def lost_in_union(self, ids: Ids, other: Ids, between: Floats) -> Floats:
        """Return the bits that are lost if two communities were one, `(m,)`; 0 if there is one."""
        first, second = self.sums[:, ids], np.where(other >= 0, self.sums[:, other], 0.0)
        united = first + second
        united[2] += 2 * between
        return self._lost([first, second], [united])

    def _lost(self, now: list[Floats], instead: list[Floats]) -> Floats:
        """Return the bits that are lost with some communities instead of others, `(m,)`."""
        k = (self.sums[0] > 0).sum()
        k_instead = k + sum(sums[0] > 0 for sums in instead) - sum(sums[0] > 0 for sums in now)
        nats = sum(map(self._nats, instead)) - sum(map(self._nats, now))
        n_nodes = self.sums[0].sum()
        nats += _code_of_sizes(n_nodes, k_instead) - _code_of_sizes(n_nodes, k)
        bits: Floats = np.asarray(nats / np.log(2), np.float64)
        return bits

    def _nats(self, community: Floats) -> Floats:
        """Return the part of the description that belongs to each community, `(m,)`."""
        sizes, volume, within = community
        total = self.sums[1].sum()
        inside = self.n_edges * within / total
        # Never 0: the alternative may have edges outside where there are none.
        mixing = (self.n_edges * (1 - self.sums[2].sum() / total) + 0.5) / (self.n_edges + 1)
        # An empty community saves nothing; rounding may leave it a little, or less than nothing.
        share = np.where((inside > 0) & (volume > 0), volume, total) / total
        saved = inside * np.log1p((1 - mixing) / mixing / share)
        nats: Floats = -gammaln(sizes + 1) - saved
        return nats


@dataclass(frozen=True, slots=True, eq=False)
class HiddenEdges:
    """A graph with some of its edges hidden."""

    visible: csr_array  # the other edges, (n, n)
    ends: NDArray[np.int32]  # (2, n_hidden)
    weights: Floats  # (n_hidden,)

    def score(self, communities: AnyLabels) -> float:
        """How well communities found on the visible edges predict the hidden ones, bits per edge.

        The mean, over the hidden edges, of log₂(μ + [same community] (1 − μ) 2E / vol_c): how much
        more likely each edge is under the planted model (see `description_length`) than without
        communities. vol_c and 2E are those of the visible edges. The mixing μ maximises the score,
        so the score is never below 0, and a single community has 0. Edges count by their weight;
        edges with an end that has no visible edge are ignored. A graph without edges has 0.

        The idea is cross-validation of a block model by link prediction (such as Kawamoto and
        Kabashima, "Cross-validation estimate of the number of clusters in a network", 2017).

        >>> graph = csr_array(np.kron(np.eye(4), np.ones((9, 9)) - np.eye(9)))
        >>> [round(one.score(np.arange(36) // 9)) for one in hide_edges(graph, parts=2)]
        [2, 2]
        """
        volume, _ = CommunityWeights.of(self.visible, communities)
        labels, total = as_labels(communities), volume.sum()
        has_visible_ends = (np.diff(self.visible.indptr) > 0)[self.ends].all(axis=0)
        weights = self.weights[has_visible_ends]
        if not weights.size:
            return 0.0
        one_end, other_end = labels[self.ends[:, has_visible_ends]]
        # Communities without a visible edge have no volume; none of these edges is theirs.
        lift = np.where(
            one_end == other_end, total / np.where(volume > 0, volume, total)[one_end], 0.0
        )
        mixing = _best_mixing(lift, weights)
        return float(np.average(np.log2(mixing + (1 - mixing) * lift), weights=weights))


def hide_edges(
    adjacency: csr_array, seed: int | np.random.Generator = 0, parts: int = 10
) -> Iterator[HiddenEdges]:
    """Split the edges into random parts of equal size, and hide each part in turn.

    adjacency: (n, n) symmetric, zero diagonal.

    Raises `BadSettings` for fewer than 2 parts.

    >>> graph = csr_array(np.ones((5, 5)) - np.eye(5))
    >>> [len(hidden.weights) for hidden in hide_edges(graph, parts=5)]
    [2, 2, 2, 2, 2]
    """
    from stream_icd.core.symmetric import symmetric  # a tracker needs no numba

    if parts < 2:
        raise BadSettings(f"parts={parts}; hiding all edges leaves nothing to find: give 2 or more")
    rows = np.repeat(np.arange(adjacency.shape[0], dtype=np.int32), np.diff(adjacency.indptr))
    # Each edge once; a stored zero is none.
    upper = np.flatnonzero((rows < adjacency.indices) & (adjacency.data > 0))
    ends = np.stack([rows[upper], adjacency.indices[upper]]).astype(np.int32)  # (2, E)
    weights = np.asarray(adjacency.data[upper], np.float64)
    part = np.random.default_rng(seed).permutation(len(upper)) % parts
    for number in range(parts):
        hidden = part == number
        row, column = ends[:, ~hidden]
        visible = symmetric(row, column, weights[~hidden], adjacency.shape[0])
        yield HiddenEdges(visible, ends[:, hidden], weights[hidden])


def mean_hidden_edge_score(
    adjacency: csr_array, find: Callable[[csr_array], AnyLabels | None], seed: int = 0
) -> float | None:
    """The mean score of what `find` makes of the visible edges; None if it finds nothing once."""
    scores = []
    for hidden in islice(hide_edges(adjacency, seed), _SPLITS):
        communities = find(hidden.visible)
        if communities is None:
            return None
        scores.append(hidden.score(communities))
    return float(np.mean(scores))


def _best_mixing(lift: Floats, weights: Floats) -> float:
    """The μ in 0..1 that maximises Σ w log(μ + (1 − μ) lift), which is concave: by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        slope = (weights * (1 - lift) / (middle + (1 - middle) * lift)).sum()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return high
