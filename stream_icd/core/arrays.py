"""The kinds of arrays that signatures name, and what numpy and scipy lack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings

Floats = NDArray[np.float64]

Shares = NDArray[np.float32]
"""Probabilities, from 0 to 1."""

Ids = NDArray[np.int64]
"""Ids, or positions: of nodes, communities or windows."""

Labels = NDArray[np.int32]
"""The community of each node, `(n,)`, 0 or higher."""

AnyLabels = NDArray[np.integer]
"""The community of each node, `(n,)`, by any integers."""

NOBODY = -1
"""In place of a community, or of its id: of none."""


def n_distinct(values: NDArray[np.integer]) -> int:
    """Return the number of different values, by sorting.

    `numpy.unique` puts integers into a hash table (numpy 2.4), which takes 50 times as long from
    100,000 different values on, and worse with more. It sorts where it also counts or gives places.

    >>> n_distinct(np.array([3, 1, 3])), n_distinct(np.array([], np.int64))
    (2, 0)
    """
    ordered = np.sort(values, axis=None)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)


def as_labels(communities: AnyLabels) -> Ids:
    """Return the same communities with labels 0..K-1, none empty.

    Raises `BadSettings` if they are not one-dimensional, not of an integer type, or masked.
    """
    if np.ma.is_masked(communities):
        raise BadSettings("some communities are masked: leave out these nodes, or fill them")
    communities = np.asarray(communities)  # a list, or a pandas Series, at the door
    if communities.ndim != 1 or (communities.size and communities.dtype.kind not in "iu"):
        raise BadSettings(
            f"communities must be integers of shape (n,), not {communities.dtype} of shape "
            f"{communities.shape}"
        )
    labels: Ids = communities.astype(np.int64)
    within = labels.min(initial=0) >= 0 and labels.max(initial=-1) < len(labels)
    if within and np.bincount(labels).all():  # as from a detector: no need to sort them
        return labels
    return np.unique(communities, return_inverse=True)[1].astype(np.int64, copy=False)
