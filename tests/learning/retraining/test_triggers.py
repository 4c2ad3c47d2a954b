"""When to learn: each trigger says whether, and why."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadSettings
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.triggers import (
    Due,
    any_due,
    drift,
    every_period,
    every_windows,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_every_n_windows(every: int, new: int) -> None:
    answer = every_windows(every, new)
    assert answer.due == (new >= every)
    assert f"{new} of {every}" in answer.reason


def test_every_period() -> None:
    assert every_period(DAY, None, NOW) == Due(True, "there was no attempt yet")
    assert every_period(DAY, NOW - DAY, NOW).due
    early = every_period(DAY, NOW - timedelta(hours=5), NOW)
    assert early == Due(
        False, "the last attempt was at 2026-02-28 19:00:00 UTC, to repeat after 1 day, 0:00:00"
    )
    assert every_period(DAY, NOW - timedelta(hours=5), NOW + timedelta(minutes=1)) == early
    assert not every_period(DAY, NOW + DAY, NOW).due  # by a clock that went backwards


@pytest.mark.parametrize("wrong", [{"every_windows": 0}, {"every": timedelta(0)}, {"every": -DAY}])
def test_an_interval_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadSettings, match="a period above 0"):
        Retraining("archive", **wrong)


@given(st.lists(st.booleans(), max_size=5))
def test_one_trigger_is_enough_and_says_why(answers: list[bool]) -> None:
    together = any_due([Due(due, f"trigger {number}") for number, due in enumerate(answers)])
    assert together.due == any(answers)
    for number, due in enumerate(answers):
        assert (f"trigger {number}" in together.reason) == (due or not any(answers))
    assert any_due([]) == Due(False, "no trigger is set")
    assert any_due([Due(True, "a", since=9), Due(True, "b", since=4)]).since == 4  # the latest


def _stream(seed: int, *levels: tuple[int, float]) -> list[float]:
    rng = np.random.default_rng(seed)
    return [level + 0.05 * rng.standard_normal() for count, level in levels for _ in range(count)]


class TestDrift:
    @pytest.mark.parametrize("level", [1.4, 2.6])
    def test_a_change_is_found_within_three_windows(self, level: float) -> None:
        for seed in range(20):
            answer = drift(_stream(seed, (30, 2.0), (4, level)))
            assert answer.due
            assert answer.since is not None
            assert 2 <= answer.since <= 4
            assert "drift" in answer.reason

    def test_a_slow_change_is_found(self) -> None:
        slow = [2 - 0.01 * max(0, at - 20) for at in range(80)]
        assert drift(slow).due

    def test_a_steady_stream_hardly_ever_drifts(self) -> None:
        alarms = sum(drift(_stream(seed, (60, 2.0))).due for seed in range(40))
        assert alarms <= 4

    def test_a_constant_stream_never_drifts(self) -> None:
        assert not drift([0.0] * 100).due
        assert not drift([2.0] * 100).due

    def test_few_windows_say_nothing(self) -> None:
        assert drift([1.0, 9.0]) == Due(
            False, "2 windows since the last attempt; drift needs more than 8"
        )

    def test_windows_without_a_score_count_since_the_change(self) -> None:
        scores = [None, *_stream(0, (10, 95.0)), None, *_stream(1, (3, 60.0)), None]
        answer = drift(scores, "NMI", "%")
        assert answer.due
        assert answer.since == 4
        assert "NMI 60.0" in answer.reason
        assert (
            drift([None] * 30).reason == "0 windows since the last attempt; drift needs more than 8"
        )
