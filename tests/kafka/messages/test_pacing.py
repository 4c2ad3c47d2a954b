"""The past goes by as fast as it was asked to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.kafka.messages.pacing import Tempo, paced, parse_rate

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = (0, 1, 5, 6)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def times(tempo: Tempo, slow: float = 0.0) -> list[float]:
    """When each of four windows comes, seconds from the start."""
    clock, found = Clock(), []
    items = (START + timedelta(minutes=m) for m in MINUTES)
    for _ in paced(items, lambda time: time, tempo, clock, clock.sleep):
        found.append(round(clock.now - 100.0, 6))
        clock.now += slow
    return found


def test_a_speed_keeps_the_spacing_of_windows() -> None:
    assert times(Tempo.of_options("60x", None)) == [0, 1, 5, 6]
    assert times(Tempo.of_options("0.5", None)) == [0, 120, 600, 720]


def test_a_rate_is_so_many_a_second() -> None:
    assert times(Tempo.of_options(None, parse_rate("50/s"))) == [0, 0.02, 0.04, 0.06]


def test_a_rate_is_kept_without_drift() -> None:
    assert times(Tempo(rate=4), slow=0.1) == [0, 0.25, 0.5, 0.75]


def test_a_pause_is_no_longer_than_a_thread_can_wait() -> None:
    waits: list[float] = []
    times = [START, START]
    assert list(paced(times, lambda one: one, Tempo(rate=1e-320), lambda: 0.0, waits.append))
    assert waits == [threading.TIMEOUT_MAX]


def test_the_fastest_does_not_wait() -> None:
    for fastest in (False, True):
        assert times(Tempo.of_options(None, None, fastest=fastest)) == [0] * 4


def test_work_that_takes_long_is_caught_up_with() -> None:
    assert times(Tempo.of_options("60x", None), slow=2.0) == [0, 2, 5, 7]


def test_a_window_8000_years_later_is_waited_for() -> None:
    waits: list[float] = []
    times = [datetime(2026, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]
    assert list(paced(times, lambda one: one, Tempo(speed=1), lambda: 0.0, waits.append)) == times
    assert waits == [threading.TIMEOUT_MAX]


def test_nobody_waits_for_what_is_there_already() -> None:
    clock = Clock()
    items = [START + timedelta(minutes=m) for m in MINUTES]
    done = paced(items, lambda t: None if t < items[2] else t, Tempo(speed=60), clock, clock.sleep)
    assert list(done) == items
    assert clock.now == 101.0  # from the third to the fourth


@pytest.mark.parametrize(
    ("speed", "rate", "fastest"),
    [
        ("fast", None, False),
        ("0x", None, False),
        ("2/s", None, False),
        (None, "-1/s", False),
        ("2x", "3/s", False),
        ("2x", None, True),
        (None, "3/s", True),
    ],
)
def test_other_tempos_are_refused(speed: str | None, rate: str | None, fastest: bool) -> None:
    with pytest.raises(BadSettings):
        Tempo.of_options(speed, None if rate is None else parse_rate(rate), fastest=fastest)


@pytest.mark.parametrize("rate", [0, float("nan"), float("inf")])
def test_a_rate_of_nothing_is_refused(rate: float) -> None:
    with pytest.raises(BadSettings, match=f"rate {rate}; it must be above 0"):
        Tempo(rate=rate)
