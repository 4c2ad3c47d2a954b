"""The kinds of arrays that signatures name; how many values differ."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers."""

Ids = NDArray[np.int64]
"""Ids, or positions: of nodes, communities or windows."""

Labels = NDArray[np.int32]
"""The community of each node, `(n,)`, 0 or higher."""


def n_distinct(values: NDArray[np.integer]) -> int:
    """Return the number of different values, by sorting.

    `numpy.unique` puts integers into a hash table (numpy 2.4), which takes 50 times as long from
    100,000 different values on, and worse with more. It sorts where it also counts or gives places.

    >>> n_distinct(np.array([3, 1, 3])), n_distinct(np.array([], np.int64))
    (2, 0)
    """
    ordered = np.sort(values, axis=None)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)
