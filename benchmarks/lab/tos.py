"""TOS, the paper's trade-off score between the quality of communities and the time they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings

Floats = NDArray[np.float64]

Measure = Literal["nmi", "ac", "modularity", "ncut"]


def trade_off_scores(qualities: Floats, seconds: Floats, measure: Measure) -> Floats:
    """TOS = Q̂ · Ê of each of M methods compared on the same graphs, in 0..1 (ICD paper, section
    "Trade-Off Analysis").

    Q̂ = Q for NMI and AC, (Q + 1)/2 for modularity, (Q_m − Q)/Q_m for NCut, with Q_m the highest
    NCut of these methods. Ê = (E_m − E)/E_m for the time E, with E_m the time of the slowest of
    them. The slowest method therefore scores 0: compare scores only within one set of methods. If
    every NCut is 0, Q̂ is 1.

    qualities: (M,), values of `measure` as fractions, not percent; seconds: (M,), positive.

    Raises `BadSettings` for other shapes, an unknown measure, or values outside its range.

    >>> trade_off_scores(np.array([0.9, 0.5]), np.array([1.0, 2.0]), "nmi").tolist()
    [0.45, 0.0]
    """
    if qualities.ndim != 1 or qualities.shape != seconds.shape:
        raise BadSettings(
            f"qualities and seconds must both be (M,), not {qualities.shape} and {seconds.shape}"
        )
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise BadSettings("seconds must be finite and positive")
    return _normalised(qualities, measure) * _below_maximum(seconds)


def _normalised(qualities: Floats, measure: Measure) -> Floats:
    if measure not in get_args(Measure):
        raise BadSettings(f"no measure {measure!r}: choose from {', '.join(get_args(Measure))}")
    (low, high), normalise = _MEASURES[measure]
    if not ((qualities >= low) & (qualities <= high)).all():
        raise BadSettings(f"values of {measure} must be in {low}..{high}, as fractions")
    return normalise(qualities)


def _below_maximum(values: Floats) -> Floats:
    """How far each value is below the largest, relative to it; 1 everywhere if all are 0."""
    if not values.any():
        return np.ones(len(values))
    return np.asarray(1 - values / values.max(), dtype=np.float64)


_MEASURES: dict[Measure, tuple[tuple[float, float], Callable[[Floats], Floats]]] = {
    "nmi": ((0.0, 1.0), lambda values: values),
    "ac": ((0.0, 1.0), lambda values: values),
    "modularity": ((-1.0, 1.0), lambda values: (values + 1) / 2),
    "ncut": ((0.0, np.finfo(np.float64).max), _below_maximum),
}
"""Range and normalisation of each measure of quality."""
