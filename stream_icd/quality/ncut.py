"""Normalised cut: the fraction of each community's weight that leaves it; lower is better.

The ICD paper states this formula; its authors' scripts, and so its tables, have another, in
`lab/ncut_within.py`.
"""

from __future__ import annotations

from scipy.sparse import csr_array

from stream_icd.quality.community_weights import CommunityWeights, community_weights
from stream_icd.quality.labels import Communities


def ncut(adjacency: csr_array, communities: Communities) -> float:
    """½ Σ_c cut(c) / vol(c), in 0..K/2 (ICD paper, equation 1; Shi and Malik, 2000).

    cut(c) is the weight of the edges that leave community c, vol(c) the sum of its degrees. A
    community of isolated nodes adds 0, so a graph without edges has 0.

    adjacency: (n, n) symmetric, zero diagonal; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.
    """
    return ncut_by(community_weights(adjacency, communities))


def ncut_by(weights: CommunityWeights) -> float:
    """Return the normalised cut of communities with these weights; see `ncut`."""
    volume, within = weights
    connected = volume > 0
    return float(0.5 * (1 - within[connected] / volume[connected]).sum())
