"""The mixing μ of a partition: the fraction of the edge weight between communities."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.bp.multilevel.level_graph import Labels

MIXING_RANGE = (0.01, 0.99)
"""Limits of the mixing for belief propagation, which needs a value strictly inside 0..1."""


def mixing_of(adjacency: csr_array, labels: Labels) -> float:
    """μ of a partition, in 0..1; 0 for a graph without edges.

    adjacency: (n, n) symmetric, zero diagonal; labels: (n,), any integers.

    >>> path = csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> mixing_of(path, np.array([0, 0, 1]))
    0.5
    """
    if not adjacency.nnz:
        return 0.0
    rows = np.repeat(labels, np.diff(adjacency.indptr))
    between = rows != labels[adjacency.indices]
    return float(adjacency.data[between].sum() / adjacency.data.sum())
