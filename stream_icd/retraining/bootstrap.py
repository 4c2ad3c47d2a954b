"""A confidence interval for the mean of paired differences, by the bootstrap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 10_000


class Interval(NamedTuple):
    """A mean, and the ends of its confidence interval."""

    low: float
    mean: float
    high: float


def paired_bootstrap(
    differences: ArrayLike, confidence: float, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """The mean of the differences; the true mean is above `low` with this confidence.

    It is also below `high` with this confidence (each end is one-sided). Windows are drawn with
    replacement (Efron, 1979); the quantiles of the resampled means are the ends.

    differences: (n,) at least one, one for each window.

    >>> paired_bootstrap([1.0, 1.0, 1.0], 0.99)
    Interval(low=1.0, mean=1.0, high=1.0)
    """
    values = np.asarray(differences, np.float64)
    drawn = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    means = values[drawn].mean(axis=1)
    low, high = np.quantile(means, [1 - confidence, confidence])
    return Interval(float(low), float(values.mean()), float(high))
