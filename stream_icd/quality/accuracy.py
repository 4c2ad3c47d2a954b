"""AC: the fraction of correct nodes under the best matching of found and true communities."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from stream_icd.quality.contingency import contingency
from stream_icd.quality.labels import Communities


def accuracy(truth: Communities, found: Communities) -> float:
    """AC of the ICD paper, in 0..1: 1 if the partitions are the same.

    Found and true communities are matched one to one so that as many nodes as possible agree (the
    assignment problem of Kuhn and Munkres). It is solved on the sparse contingency table, never on
    all K × K pairs. Without nodes the score is 1.

    truth, found: integer labels (n,), any values. Raises `BadSettings` for other shapes or types.

    >>> accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]))
    0.75
    """
    counts = contingency(truth, found)
    n_nodes = counts.sum()
    if n_nodes == 0:
        return 1.0
    return float(_most_in_agreement(counts) / n_nodes)


def _most_in_agreement(counts: csr_array) -> int:
    """The largest sum of entries with no two in the same row or column.

    Every row gets an extra column of its own, so that a matching of all rows exists. One is added
    to every entry, since the solver treats a zero as a missing entry. The best matching stays the
    same, and its sum grows by one per row.
    """
    n_rows = int(counts.shape[0])
    offset = counts.copy()
    offset.data += 1
    padded = hstack([offset, eye_array(n_rows, dtype=np.int64)], format="csr")
    rows, columns = min_weight_full_bipartite_matching(padded, maximize=True)
    return int(padded[rows, columns].sum()) - n_rows
