"""Normalised cut as the ICD authors' scripts compute it, and the paper's tables print it.

The paper states another (`stream_icd.methods.quality.partition`), which cannot exceed K/2; its
tables do.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import AnyLabels
from stream_icd.methods.quality.partition import CommunityWeights

# The scripts' minimum inside weight, a tenth of an edge, keeps communities without edges finite. In
# a weighted graph it is a tenth of the mean weight, so that the unit does not matter.
WITHIN_FLOOR = 0.1


def ncut_within(adjacency: csr_array, communities: AnyLabels) -> float:
    """½ Σ_c cut(c) / max(w(c), 0.1 w̄), as in the ICD authors' scripts and the paper's tables.

    w(c) is the weight inside community c, with each edge counted from both ends, and w̄ the mean
    edge weight, 1 in the scripts. A single-node community adds five times its degree, so the value
    can be far above K/2. A graph without edges has 0.

    adjacency: (n, n) symmetric, zero diagonal; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.
    """
    volume, within = CommunityWeights.of(adjacency, communities)
    if not adjacency.nnz:
        return 0.0
    floor = WITHIN_FLOOR * volume.sum() / adjacency.nnz
    return float(0.5 * ((volume - within) / np.maximum(within, floor)).sum())
