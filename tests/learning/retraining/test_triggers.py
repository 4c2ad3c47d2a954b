"""When to learn: each trigger says whether, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import ScoredWindow
from stream_icd.learning.retraining.triggers import Due, triggered

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def asked(n_new: int = 0, last: datetime | None = None, now: datetime = NOW, **set_: Any) -> Due:
    return triggered(Retraining("archive", **{"drift": False, **set_}), n_new, last, now)


def drift(scores: Sequence[float | None], nmi: Sequence[float | None] = ()) -> Due:
    both = zip(scores, nmi or [None] * len(scores), strict=True)
    scored = [ScoredWindow("g", f"w{at}", one, True, other) for at, (one, other) in enumerate(both)]
    return triggered(Retraining("archive"), len(scored), None, NOW, scored)


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_every_n_windows(every: int, new: int) -> None:
    assert asked(new, every_windows=every) == Due(new >= every, f"{new} of {every} new windows")


def test_one_trigger_is_enough_and_says_why() -> None:
    assert asked() == Due(False, "no trigger is set")
    both = {"every": DAY, "every_windows": 9}
    assert asked(9, **both).reason == "9 of 9 new windows; there was no attempt yet"
    assert asked(8, **both) == Due(True, "there was no attempt yet")
    none = asked(8, NOW, **both)
    assert not none.due
    assert none.reason.startswith("8 of 9 new windows; the last attempt was at")


def test_every_period() -> None:
    assert asked(every=DAY) == Due(True, "there was no attempt yet")
    assert asked(last=NOW - DAY, every=DAY).due
    before = NOW - timedelta(hours=5)
    early = asked(last=before, every=DAY)
    assert early == Due(
        False, "the last attempt was at 2026-02-28 19:00:00 UTC, to repeat after 1 day, 0:00:00"
    )
    assert asked(last=before, now=NOW + timedelta(minutes=1), every=DAY) == early
    assert not asked(last=NOW + DAY, every=DAY).due  # by a clock that went backwards


def stream(seed: int, *levels: tuple[int, float]) -> list[float]:
    rng = np.random.default_rng(seed)
    return [level + 0.05 * rng.standard_normal() for count, level in levels for _ in range(count)]


@pytest.mark.parametrize("level", [1.4, 2.6])
def test_a_drift_is_found_within_three_windows(level: float) -> None:
    for seed in range(20):
        answer = drift(stream(seed, (30, 2.0), (4, level)))
        assert answer.due
        assert answer.since is not None
        assert 2 <= answer.since <= 4
        assert "drift" in answer.reason


def test_a_slow_drift_is_found_and_a_steady_stream_has_hardly_ever_one() -> None:
    assert drift([2 - 0.01 * max(0, at - 20) for at in range(80)]).due
    assert sum(drift(stream(seed, (60, 2.0))).due for seed in range(40)) <= 4
    for constant in (0.0, 2.0):
        assert not drift([constant] * 100).due


def test_few_windows_say_nothing_of_drift() -> None:
    few = "{} windows since the last attempt; drift needs more than 8"
    assert drift([1.0, 9.0]) == Due(False, few.format(2))
    assert drift([None] * 30).reason == few.format(0)


def test_windows_without_a_score_count_since_the_drift_and_the_latest_one_counts() -> None:
    nmi = [None, *stream(0, (10, 0.95)), None, *stream(1, (3, 0.3)), None]
    late = drift([2.0] * 16, nmi)
    assert (late.due, late.since) == (True, 4)
    assert "NMI 3" in late.reason
    assert "hidden edges" not in late.reason
    both = drift([2.0] * 9 + [9.0] * 7, nmi)
    assert both.since == 4
    assert "hidden edges 9.00 bits instead of 2.00; drift 4 windows ago: NMI" in both.reason
