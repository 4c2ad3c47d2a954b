"""Modularity: how much more weight lies inside communities than expected by chance."""

from __future__ import annotations

from scipy.sparse import csr_array

from stream_icd.quality.community_weights import CommunityWeights, community_weights
from stream_icd.quality.labels import Communities


def modularity(adjacency: csr_array, communities: Communities, resolution: float = 1.0) -> float:
    """Q = Σ_c [w_c / 2m − γ (vol_c / 2m)²], Newman and Girvan (2004), weighted.

    w_c is the weight inside community c from both ends, vol_c the sum of its degrees, 2m the sum of
    all degrees, γ the resolution (Reichardt and Bornholdt, 2006). At γ = 1, Q is in −1/2..1, and a
    single community has Q = 0. A graph without edges has Q = 0.

    adjacency: (n, n) symmetric, zero diagonal; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.
    """
    return modularity_by(community_weights(adjacency, communities), resolution)


def modularity_by(weights: CommunityWeights, resolution: float = 1.0) -> float:
    """Return Q of communities with these weights; see `modularity`."""
    volume, within = weights
    total = volume.sum()
    if total == 0:
        return 0.0
    return float(within.sum() / total - resolution * ((volume / total) ** 2).sum())
