"""Edge weights for both methods: independent of their unit, with a cap on heavy edges."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats
from stream_icd.core.errors import BadInput

EXPONENT = 0.5
"""Default exponent of the weights, if none was learned: the square root, as for counts."""

_HEAVIEST, _LIGHTEST = 16.0, 1e-12
"""Weights are clipped to these multiples of the median weight."""


def comparable(adjacency: csr_array, exponent: float = EXPONENT) -> csr_array:
    """The same graph with weights f(w) = min(w / median, 16)^exponent, divided by their mean.

    So the unit of the weights does not matter, and no edge weighs much more than the others. An
    unweighted graph, or a graph with equal weights, gets weights of exactly 1.

    docs/measured/weights.md explains the square root and the cap. The weights are rounded to 24
    bits, so rounding errors of another unit do not change them either.

    Args:
        adjacency: (n, n) symmetric, weights positive and finite.
        exponent: 1 keeps the proportions of the weights up to the cap, 0 ignores the weights.

    Raises `BadInput` if a weight is not positive and finite.

    >>> one_light_one_heavy = csr_array([[0, 1, 0], [1, 0, 4], [0, 4, 0]])
    >>> comparable(one_light_one_heavy, exponent=1).toarray().tolist()
    [[0.0, 0.4000000059604645, 0.0], [0.4000000059604645, 0.0, 1.600000023841858], \
[0.0, 1.600000023841858, 0.0]]
    """
    weights = comparable_weights(adjacency.data, exponent)
    return csr_array((weights, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


def comparable_weights(weights: Floats, exponent: float = EXPONENT) -> Floats:
    """The weights of `comparable`, of those of each entry."""
    if not len(weights):
        return weights
    lightest, heaviest = weights.min(), weights.max()
    if not 0 < lightest <= heaviest < np.inf:
        raise BadInput(
            f"edge weights are from {lightest} to {heaviest}; they must be positive and finite"
        )
    if lightest == heaviest:
        return np.ones(len(weights))
    compressed = _relative(np.asarray(weights, np.float64)) ** exponent
    return _rounded(compressed / compressed.mean())


def _relative(weights: Floats) -> Floats:
    """Multiples of the (upper) median weight, between LIGHTEST and HEAVIEST."""
    middle = len(weights) // 2
    median = np.partition(weights, middle)[middle]
    # A ratio past the range of floating point is infinite or 0, and clipped in the next line.
    with np.errstate(over="ignore", under="ignore"):
        multiples = weights / median
    return _rounded(multiples.clip(_LIGHTEST, _HEAVIEST))


def _rounded(values: Floats) -> Floats:
    return values.astype(np.float32).astype(np.float64)
