"""Description length: the bits that communities save in describing the edges of a graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln, xlogy

from stream_icd.quality.cuts import community_weights
from stream_icd.quality.labels import Communities, compact


def description_length(adjacency: csr_array, communities: Communities) -> float:
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

    adjacency: (n, n) symmetric, zero diagonal; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.

    >>> clique = np.ones((9, 9)) - np.eye(9)
    >>> graph = csr_array(np.kron(np.eye(4), clique))
    >>> round(description_length(graph, np.arange(36) // 9), 2)
    -1.43
    >>> description_length(graph, np.zeros(36, np.int32))
    0.0
    """
    volume, within = community_weights(adjacency, communities)
    has_edges = adjacency.sum(axis=1) > 0
    sizes = np.bincount(compact(communities)[has_edges], minlength=len(volume))
    return bits_per_edge(volume, within, sizes, np.count_nonzero(adjacency.data) / 2)


def bits_per_edge(
    volume: NDArray[np.float64],
    within: NDArray[np.float64],
    sizes: NDArray[np.int64] | NDArray[np.float64],
    n_edges: float,
) -> float:
    """`description_length` from sums over each community, all (K,); some may be empty.

    volume, within: as in `CommunityWeights`; sizes: number of nodes that have edges.

    >>> round(bits_per_edge(np.full(4, 72.0), np.full(4, 72.0), np.full(4, 9), 144), 2)
    -1.43
    """
    total = volume.sum()  # 2E
    linked = sizes > 0
    if total == 0 or linked.sum() == 1:
        return 0.0
    gain = n_edges * _log_likelihood_ratio(volume[linked] / total, within[linked] / total)
    return float((partition_code(sizes[linked]) - gain) / n_edges / np.log(2))


def _log_likelihood_ratio(volume: NDArray[np.float64], within: NDArray[np.float64]) -> float:
    """Mean log probability of an edge, minus that without communities; shares of 2E, both (K,)."""
    mixing = max(1 - within.sum(), 0.0)
    return float(xlogy(mixing, mixing) + (within * np.log(mixing + (1 - mixing) / volume)).sum())


def partition_code(sizes: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Nats to encode which of N nodes are in which of K communities; sizes (K,) are positive."""
    n_nodes, k = sizes.sum(), len(sizes)
    places = gammaln(n_nodes + 1) - gammaln(sizes + 1).sum()
    return float(places + code_of_sizes(n_nodes, k) + np.log(n_nodes))


def code_of_sizes(n_nodes: float, k: ArrayLike) -> NDArray[np.float64]:
    """Nats to encode the sizes of K communities of N nodes, for each K: log C(N − 1, K − 1)."""
    nats: NDArray[np.float64] = gammaln(n_nodes) - gammaln(k) - gammaln(n_nodes - np.asarray(k) + 1)
    return nats
