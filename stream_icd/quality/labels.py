"""Check communities for the metrics, and renumber their labels without gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.errors import BadSettings

Communities = NDArray[np.integer]


def compact(communities: Communities) -> NDArray[np.int64]:
    """The same communities, (n,), with labels 0..K-1, none empty.

    Raises `BadSettings` unless `communities` is one-dimensional and of an integer type.
    """
    if communities.ndim != 1 or communities.dtype.kind not in "iu":
        raise BadSettings(
            f"communities must be integers of shape (n,), not {communities.dtype} of shape "
            f"{communities.shape}"
        )
    if _is_compact(communities):  # as from a detector: no need to sort them
        return communities.astype(np.int64)
    return np.unique(communities, return_inverse=True)[1].astype(np.int64, copy=False)


def _is_compact(communities: Communities) -> bool:
    within = communities.min(initial=0) >= 0 and communities.max(initial=-1) < len(communities)
    return bool(within and np.bincount(communities.astype(np.int64)).all())
