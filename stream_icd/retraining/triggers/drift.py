"""Learn when the law of the stream changes: a change detector on a series of scores.

The detector is the Page-Hinkley test (Page, "Continuous inspection schemes", 1954) in both
directions. It sums how far values differ from their mean so far, and reports a change when the sum
leaves its range. Values are measured in standard deviations of the first windows, so that one
setting fits streams of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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


def drift(scores: Sequence[float | None], measure: str = "hidden edges", unit: str = "bits") -> Due:
    """Due if a score has changed since the last attempt.

    Args:
        scores: one per window since the last attempt, in time order, such as the bits per edge that
            the communities save; None where it is unknown.
        measure, unit: what the scores are, for the reason.
    """
    known = [at for at, score in enumerate(scores) if score is not None]
    values = np.array([scores[at] for at in known], np.float64)
    if len(values) <= REFERENCE:
        return Due(False, f"{len(values)} windows; drift needs more than {REFERENCE}")
    first = values[:REFERENCE]
    mean = float(np.mean(first))
    spread = max(float(np.std(first, ddof=1)), LEAST_SPREAD * abs(mean), 1e-9)
    at = _change_at((values - mean) / spread)
    if at is None:
        return Due(False, f"no drift in {len(values)} windows ({measure} about {mean:.2f} {unit})")
    since = len(scores) - known[at]
    now = float(np.mean(values[at:]))
    return Due(
        True,
        f"drift {since} windows ago: {measure} {now:.2f} {unit} instead of {mean:.2f}",
        since=since,
    )


def _change_at(standardised: np.ndarray) -> int | None:
    """Return the position of the first change; None if there is none."""
    mean = rise = fall = lowest = highest = 0.0
    for at, value in enumerate(standardised):
        mean += (float(value) - mean) / (at + 1)
        rise += float(value) - mean - TOLERANCE
        fall += float(value) - mean + TOLERANCE
        lowest, highest = min(lowest, rise), max(highest, fall)
        if at + 1 >= REFERENCE and max(rise - lowest, highest - fall) > THRESHOLD:
            return at
    return None
