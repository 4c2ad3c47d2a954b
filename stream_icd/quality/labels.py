"""Check communities for the metrics, and renumber their labels without gaps.

Every metric takes communities as integer labels `(n,)`, any values. It raises `BadSettings` for
other shapes or types, and where they do not fit each other, or the graph.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.errors import BadSettings

Communities = NDArray[np.integer]


def compact(communities: Communities) -> NDArray[np.int64]:
    """The same communities, (n,), with labels 0..K-1, none empty."""
    if communities.ndim != 1 or communities.dtype.kind not in "iu":
        raise BadSettings(
            f"communities must be integers of shape (n,), not {communities.dtype} of shape "
            f"{communities.shape}"
        )
    labels: NDArray[np.int64] = communities.astype(np.int64)
    within = communities.min(initial=0) >= 0 and communities.max(initial=-1) < len(communities)
    if within and np.bincount(labels).all():  # as from a detector: no need to sort them
        return labels
    return np.unique(communities, return_inverse=True)[1].astype(np.int64, copy=False)
