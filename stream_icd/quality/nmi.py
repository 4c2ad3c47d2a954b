"""Normalised mutual information of two partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.quality.contingency import contingency
from stream_icd.quality.labels import Communities


def nmi(truth: Communities, found: Communities) -> float:
    """2 I(truth; found) / (H(truth) + H(found)), in 0..1: 1 if the partitions are the same.

    The normaliser is the arithmetic mean of the entropies, as in the ICD paper and its authors'
    scripts (and by default in scikit-learn). If both entropies are 0 (one community each, or no
    nodes), the partitions are the same and the score is 1.

    truth, found: integer labels (n,), any values. Raises `BadSettings` for other shapes or types.

    >>> nmi(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    counts = contingency(truth, found)
    if max(counts.shape) <= 1:
        return 1.0
    entropies = _entropy(counts.sum(axis=1)) + _entropy(counts.sum(axis=0))
    # I = H(truth) + H(found) - H(both); rounding may leave it slightly outside the range.
    information = entropies - _entropy(counts.data)
    return float(np.clip(2 * information / entropies, 0.0, 1.0))


def _entropy(counts: NDArray[np.int64]) -> float:
    """Shannon entropy, in nats, of positive counts."""
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
