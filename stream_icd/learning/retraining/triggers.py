"""Triggers by number, time and drift: whether it is time to learn a new model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import ScoredWindow


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a trigger asks for a new model."""

    due: bool
    reason: str  # why, or why not yet, in a few words
    since: int | None = None  # number of windows from a change of the stream's law on, if known


def triggered(
    settings: Retraining,
    n_new: int,
    last: datetime | None,
    now: datetime,
    scored: Sequence[ScoredWindow] = (),
) -> Due:
    """Ask the triggers that are set: it is time to learn if one of them says so.

    The reasons are those of the triggers that are due, else of all. `since` is that of the latest
    change.

    Args:
        n_new: windows since the last attempt.
        last: when that was; None: there was none.
        scored: these windows in time order, for the trigger `drift`.

    >>> triggered(Retraining("history/", every_windows=50, drift=False), 12, None, datetime.now())
    Due(due=False, reason='12 of 50 new windows', since=None)
    """
    answers = list[Due]()
    if settings.every_windows is not None:
        every = settings.every_windows
        answers.append(Due(n_new >= every, f"{n_new} of {every} new windows"))
    if settings.every is not None:
        answers.append(_every_period(settings.every, last, now))
    if settings.drift:
        answers.append(_drift([window.hidden_edges for window in scored], "hidden edges", "bits"))
        nmi = [None if window.nmi is None else 100 * window.nmi for window in scored]
        if any(percent is not None for percent in nmi):
            answers.append(_drift(nmi, "NMI", "%"))
    decisive = [answer for answer in answers if answer.due] or answers
    changes = [answer.since for answer in decisive if answer.since is not None]
    return Due(
        any(answer.due for answer in answers),
        "; ".join(answer.reason for answer in decisive) or "no trigger is set",
        min(changes, default=None),
    )


def _every_period(period: timedelta, last: datetime | None, now: datetime) -> Due:
    if last is None:
        return Due(True, "there was no attempt yet")
    # It stays the same until the next attempt, or a service would say it anew in each round.
    return Due(
        now - last >= period, f"the last attempt was at {last:%F %T} UTC, to repeat after {period}"
    )


_REFERENCE = 8
"""Number of windows at the beginning that define mean and spread."""

_TOLERANCE = 0.5
"""Standard deviations by which a value may differ from the mean without counting."""

_THRESHOLD = 12.0
"""Sum of differences, in standard deviations, that is a change."""

_LEAST_SPREAD = 0.01
"""Smallest spread, relative to the mean: windows that happen to be equal must not make each later
difference a change."""


def _drift(scores: Sequence[float | None], measure: str, unit: str) -> Due:
    """Due if a score has changed since the last attempt: the law of the stream is another one.

    The Page-Hinkley test (Page, "Continuous inspection schemes", 1954) in both directions: it sums
    how far values differ from their mean so far, and reports a change when the sum leaves its
    range. Values are in standard deviations of the first windows, so that one setting fits streams
    of any kind.

    Args:
        scores: one per window since the last attempt, in time order; None where it is unknown.
        measure, unit: what the scores are, for the reason.
    """
    scored_at = [at for at, score in enumerate(scores) if score is not None]
    values = np.array([scores[at] for at in scored_at], np.float64)
    if len(values) <= _REFERENCE:
        return Due(
            False,
            f"{len(values)} windows since the last attempt; drift needs more than {_REFERENCE}",
        )
    first = values[:_REFERENCE]
    mean = float(np.mean(first))
    spread = max(float(np.std(first, ddof=1)), _LEAST_SPREAD * abs(mean), 1e-9)
    at = _change_at((values - mean) / spread)
    if at is None:
        return Due(False, f"no drift in {len(values)} windows ({measure} about {mean:.2f} {unit})")
    since = len(scores) - scored_at[at]
    now = float(np.mean(values[at:]))
    return Due(
        True,
        f"drift {since} windows ago: {measure} {now:.2f} {unit} instead of {mean:.2f}",
        since=since,
    )


def _change_at(standardised: np.ndarray) -> int | None:
    mean = rise = fall = lowest = highest = 0.0
    for at, value in enumerate(standardised):
        mean += (float(value) - mean) / (at + 1)
        rise += float(value) - mean - _TOLERANCE
        fall += float(value) - mean + _TOLERANCE
        lowest, highest = min(lowest, rise), max(highest, fall)
        # Not before the first windows are complete, from which mean and spread come.
        if at + 1 >= _REFERENCE and max(rise - lowest, highest - fall) > _THRESHOLD:
            return at
    return None
