"""Learn when the law of the stream changes: a change detector on a series of evidence.

The detector is the Page-Hinkley test of river (Page, "Continuous inspection schemes", 1954) in both
directions. It sums how far values differ from their mean so far, and reports a change when the sum
leaves its range. Values are measured in standard deviations of the first windows, so that one
setting fits streams of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_icd.extras import needs_extra
from stream_icd.retraining.triggers.due import Due

REFERENCE = 8
"""Number of windows at the beginning that define mean and spread."""

TOLERANCE = 0.5
"""Standard deviations by which a value may differ from the mean without counting."""

THRESHOLD = 12.0
"""Sum of differences, in standard deviations, that is a change."""

LEAST_SPREAD = 0.01
"""Smallest spread, relative to the mean: windows that happen to be equal must not make each later
difference a change."""


def drift(evidence: Sequence[float]) -> Due:
    """Due if the evidence has changed since the last attempt.

    Args:
        evidence: one number per window since the last attempt, in time order, such as the bits per
            edge that the communities save.

    Raises:
        MissingExtra: river is not installed.
    """
    values = np.asarray(evidence, np.float64)
    if len(values) <= REFERENCE:
        return Due(False, f"{len(values)} windows; drift needs more than {REFERENCE}")
    first = values[:REFERENCE]
    mean = float(np.mean(first))
    spread = max(float(np.std(first, ddof=1)), LEAST_SPREAD * abs(mean), 1e-9)
    at = _change_at((values - mean) / spread)
    if at is None:
        return Due(False, f"no drift in {len(values)} windows (evidence about {mean:.2f} bits)")
    after = values[at:]
    return Due(
        True,
        f"drift {len(after)} windows ago: evidence {np.mean(after):.2f} bits instead of {mean:.2f}",
        since=len(after),
    )


def _change_at(standardised: np.ndarray) -> int | None:
    """Return the position of the first change; None if there is none."""
    with needs_extra("retrain", "river"):
        from river.drift import PageHinkley
    detector = PageHinkley(
        min_instances=REFERENCE, delta=TOLERANCE, threshold=THRESHOLD, alpha=1.0, mode="both"
    )
    for at, value in enumerate(standardised):
        detector.update(float(value))
        if detector.drift_detected:
            return at
    return None
