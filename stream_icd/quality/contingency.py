"""The contingency table of two partitions: how many nodes their communities share."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csr_array

from stream_icd.errors import BadSettings
from stream_icd.quality.labels import Communities, compact


def contingency(truth: Communities, found: Communities) -> csr_array:
    """Counts (K_truth, K_found) int64 of nodes in community i of `truth` and j of `found`.

    Sparse, with at most n entries, none of them zero. No row and no column is empty.

    Raises `BadSettings` unless both are integer arrays (n,) over the same nodes.

    >>> contingency(np.array([0, 0, 1, 1]), np.array([5, 5, 5, 7])).toarray().tolist()
    [[2, 0], [1, 1]]
    """
    rows, columns = compact(truth), compact(found)
    if len(rows) != len(columns):
        raise BadSettings(
            f"the two partitions must be of the same nodes, not {len(rows)} and {len(columns)}"
        )
    shape = (rows.max(initial=-1) + 1, columns.max(initial=-1) + 1)
    ones = np.ones(len(rows), dtype=np.int64)
    return coo_array((ones, (rows, columns)), shape=shape).tocsr()
