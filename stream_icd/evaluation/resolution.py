"""Search the resolution at which a method finds K communities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_icd.arrays import Labels

MAX_TRIALS = 20
"""Resolutions tried at most before the closest number of communities is taken."""


class Partition(NamedTuple):
    """What a search ended with."""

    labels: Labels
    resolution: float


def search_resolution(run: Callable[[float], Labels], n_communities: int) -> Partition:
    """Double or halve the resolution until K lies between two of them, then bisect.

    run: labels in 0..k-1 at a resolution; k grows with the resolution, apart from chance.
    """
    low, high, resolution = 0.0, np.inf, 1.0
    closest = Partition(np.zeros(0, np.int32), resolution)
    smallest_miss = np.inf
    for _ in range(MAX_TRIALS):
        labels = run(resolution)
        miss = int(labels.max()) + 1 - n_communities
        if abs(miss) < smallest_miss:
            closest, smallest_miss = Partition(labels, resolution), abs(miss)
        if miss == 0:
            break
        low, high = (resolution, high) if miss < 0 else (low, resolution)
        resolution = 2 * resolution if np.isinf(high) else (low + high) / 2
    return closest
