"""TOS, a trade-off score between the quality of communities and the time they take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.errors import BadSettings


def trade_off_scores(
    qualities: NDArray[np.float64], seconds: NDArray[np.float64], quality_weight: float = 0.5
) -> NDArray[np.float64]:
    """TOS_i = w · q̂_i + (1 − w) · ê_i of each of M methods compared on the same graphs, in 0..1.

    q̂ is the quality and ê = −log(seconds), each scaled from the worst (0) to the best (1) of the
    methods compared; if all are equal, all get 1. The logarithm compares ratios of times, so one
    slow method does not make all others look alike. Compare scores only within one set of methods.

    This definition is this library's own, not an equation of the ICD paper: do not compare these
    scores with trade-off scores published elsewhere.

    qualities: (M,), higher is better (negate NCut); seconds: (M,), positive.

    Raises `BadSettings` for other shapes, seconds that are not positive or a weight outside 0..1.

    >>> trade_off_scores(np.array([0.9, 0.5]), np.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    if qualities.ndim != 1 or qualities.shape != seconds.shape:
        raise BadSettings(
            f"qualities and seconds must both be (M,), not {qualities.shape} and {seconds.shape}"
        )
    if not (np.isfinite(qualities).all() and np.isfinite(seconds).all() and (seconds > 0).all()):
        raise BadSettings("qualities must be finite, and seconds finite and positive")
    if not 0 <= quality_weight <= 1:
        raise BadSettings(f"quality_weight must be in 0..1, not {quality_weight}")
    efficiency = _scale(-np.log(seconds))
    return quality_weight * _scale(qualities) + (1 - quality_weight) * efficiency


def _scale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale from 0 (minimum) to 1 (maximum); 1 everywhere if all values are equal."""
    spread = np.ptp(values) if len(values) else 0.0
    if spread == 0:
        return np.ones(len(values))
    scaled: NDArray[np.float64] = (values - values.min()) / spread
    return scaled
