"""AC: the share of nodes that are right under the best naming of the communities found."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from stream_icd.quality.contingency import contingency
from stream_icd.quality.labels import Communities


def accuracy(truth: Communities, found: Communities) -> float:
    """AC of the ICD paper, in 0..1: 1 where the partitions are the same.

    Each community found is given at most one true one, and each true one at most one found, so
    that as many nodes as possible agree (the assignment problem of Kuhn and Munkres). Solved on
    the sparse contingency table, never on all K × K pairs. No nodes: nothing is wrong, 1.

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
    """The largest sum of entries of which no two share a row or a column.

    Every row also gets a column of its own, so that a matching of all rows exists; and one is
    added to every entry, since the solver takes a zero for no entry. The best matching is the
    same, and its sum is larger by one for each row.
    """
    n_rows = int(counts.shape[0])
    offset = counts.copy()
    offset.data += 1
    padded = hstack([offset, eye_array(n_rows, dtype=np.int64)], format="csr")
    rows, columns = min_weight_full_bipartite_matching(padded, maximize=True)
    return int(padded[rows, columns].sum()) - n_rows
