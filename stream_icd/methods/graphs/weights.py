"""Edge weights for both methods: independent of their unit, with a cap on heavy edges."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.errors import BadInput

EXPONENT = 0.5
"""Default exponent of the weights, if none was learned: the square root, as for counts."""

_HEAVIEST, _LIGHTEST = 16.0, 1e-12
"""Weights are clipped to these multiples of the median weight."""

_MANY = 20_000
"""Weights from which on each different one is made comparable once; fewer take no longer."""


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
    weights = np.asarray(weights, np.float64)
    codes = _codes(weights) if len(weights) >= _MANY else None
    if codes is None:
        middle = len(weights) // 2
        compressed = _relative(weights, np.partition(weights, middle)[middle]) ** exponent
        return _rounded(compressed / compressed.mean())
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    values = (present.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    up_to = np.cumsum(counts[present])
    median = values[np.searchsorted(up_to, len(weights) // 2, side="right")]
    compressed = _relative(values, median) ** exponent
    table = np.zeros(len(counts))
    table[present] = _rounded(compressed / ((compressed * counts[present]).sum() / len(weights)))
    return table[codes]


def _codes(weights: Floats) -> Ids | None:
    """The first 16 bits of each weight as a float of 32, or None if a weight has more.

    Those of a sum of windows (`memory.sums`) and small counts have no more, so few are different.
    """
    with np.errstate(over="ignore", under="ignore"):  # such a weight is another one then
        narrow = weights.astype(np.float32)
    bits = narrow.view(np.uint32)
    if (bits & 0xFFFF).any() or (narrow != weights).any():
        return None
    return (bits >> 16).astype(np.int64)


def _relative(weights: Floats, median: float) -> Floats:
    """Multiples of the (upper) median weight, between LIGHTEST and HEAVIEST."""
    # A ratio past the range of floating point is infinite or 0, and clipped in the next line.
    with np.errstate(over="ignore", under="ignore"):
        multiples = weights / median
    return _rounded(multiples.clip(_LIGHTEST, _HEAVIEST))


def _rounded(values: Floats) -> Floats:
    return values.astype(np.float32).astype(np.float64)
