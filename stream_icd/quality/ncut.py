"""Normalised cut: the fraction of each community's weight that leaves it; lower is better.

The ICD paper states one formula, and its authors' scripts compute another. The paper's tables
follow the scripts: the stated formula cannot exceed K/2, and the tables do. This module has both.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.quality.community_weights import community_weights
from stream_icd.quality.labels import Communities

# The scripts' minimum inside weight, a tenth of an edge, keeps communities without edges finite. In
# a weighted graph it is a tenth of the mean weight, so that the unit does not matter.
WITHIN_FLOOR = 0.1


def ncut(adjacency: csr_array, communities: Communities) -> float:
    """½ Σ_c cut(c) / vol(c), in 0..K/2 (ICD paper, equation 1; Shi and Malik, 2000).

    cut(c) is the weight of the edges that leave community c, vol(c) the sum of its degrees. A
    community of isolated nodes adds 0, so a graph without edges has 0.

    adjacency: (n, n) symmetric, zero diagonal; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.
    """
    volume, within = community_weights(adjacency, communities)
    connected = volume > 0
    return float(0.5 * (1 - within[connected] / volume[connected]).sum())


def ncut_within(adjacency: csr_array, communities: Communities) -> float:
    """½ Σ_c cut(c) / max(w(c), 0.1 w̄), as in the ICD authors' scripts and the paper's tables.

    w(c) is the weight inside community c, with each edge counted from both ends, and w̄ the mean
    edge weight, 1 in the scripts. A single-node community adds five times its degree, so the value
    can be far above K/2. A graph without edges has 0.

    adjacency: (n, n) symmetric, zero diagonal; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.
    """
    volume, within = community_weights(adjacency, communities)
    if not adjacency.nnz:
        return 0.0
    floor = WITHIN_FLOOR * volume.sum() / adjacency.nnz
    return float(0.5 * ((volume - within) / np.maximum(within, floor)).sum())
