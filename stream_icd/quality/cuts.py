"""Modularity and normalised cut, from two sums per community.

The ICD paper states this normalised cut; its authors' scripts, and so its tables, have another, in
`lab/ncut_within.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from stream_icd.arrays import AnyLabels, Floats, compact
from stream_icd.errors import BadSettings


class CommunityWeights(NamedTuple):
    """Sums over each community's nodes, both (K,) float64; their difference is its cut."""

    volume: Floats  # of the degrees
    within: Floats  # of the weights inside, each edge from both of its ends


def community_weights(adjacency: csr_array, communities: AnyLabels) -> CommunityWeights:
    """Volume and inside weight of each community, in time and memory O(E).

    If the sum of the weights would overflow, all are first divided by one power of two: the metrics
    computed from these sums do not depend on the weights' unit.

    adjacency: (n, n) symmetric, non-negative weights.
    """
    if not issparse(adjacency) or adjacency.format != "csr":
        raise BadSettings(f"adjacency must be a sparse CSR array, not {type(adjacency).__name__}")
    labels = compact(communities)
    if adjacency.shape != (len(labels), len(labels)):
        raise BadSettings(
            f"{len(labels)} communities' labels need an adjacency of as many rows and columns, "
            f"not {adjacency.shape}"
        )
    sources = np.repeat(labels, np.diff(adjacency.indptr))  # (2E,)
    weights = adjacency.data
    with np.errstate(over="ignore"):
        if not np.isfinite(2 * weights.sum()):
            weights = np.ldexp(weights, -100)
    inside = sources == labels.take(adjacency.indices)
    n_communities = int(labels.max(initial=-1)) + 1
    volume = np.bincount(sources, weights, n_communities).astype(np.float64)
    within = np.bincount(sources, weights * inside, n_communities)  # faster than to choose entries
    return CommunityWeights(volume, within.astype(np.float64))


def modularity(adjacency: csr_array, communities: AnyLabels, resolution: float = 1.0) -> float:
    """Q = Σ_c [w_c / 2m − γ (vol_c / 2m)²], Newman and Girvan (2004), weighted.

    w_c is the weight inside community c from both ends, vol_c the sum of its degrees, 2m the sum of
    all degrees, γ the resolution (Reichardt and Bornholdt, 2006). At γ = 1, Q is in −1/2..1, and a
    single community has Q = 0. A graph without edges has Q = 0.

    adjacency: (n, n) symmetric, zero diagonal.
    """
    return modularity_by(community_weights(adjacency, communities), resolution)


def modularity_by(weights: CommunityWeights, resolution: float = 1.0) -> float:
    """Return Q of communities with these weights; see `modularity`."""
    volume, within = weights
    total = volume.sum()
    if total == 0:
        return 0.0
    return float(within.sum() / total - resolution * ((volume / total) ** 2).sum())


def ncut(adjacency: csr_array, communities: AnyLabels) -> float:
    """½ Σ_c cut(c) / vol(c), in 0..K/2 (ICD paper, equation 1; Shi and Malik, 2000).

    cut(c) is the weight of the edges that leave community c, vol(c) the sum of its degrees. A
    community of isolated nodes adds 0, so a graph without edges has 0.

    adjacency: (n, n) symmetric, zero diagonal.
    """
    return ncut_by(community_weights(adjacency, communities))


def ncut_by(weights: CommunityWeights) -> float:
    """Return the normalised cut of communities with these weights; see `ncut`."""
    volume, within = weights
    connected = volume > 0
    return float(0.5 * (1 - within[connected] / volume[connected]).sum())
