import numpy as np
import pytest

from stream_icd.errors import BadSettings
from stream_icd.quality.tos import trade_off_scores

QUALITIES = np.array([0.9, 0.8, 0.5])
SECONDS = np.array([10.0, 0.1, 1.0])


def test_best_on_both_sides_is_one_and_worst_on_both_is_zero() -> None:
    scores = trade_off_scores(np.array([0.9, 0.7, 0.8]), np.array([0.1, 10.0, 1.0]))
    assert scores == pytest.approx([1.0, 0.0, 0.5])


def test_the_weight_slides_from_time_alone_to_quality_alone() -> None:
    assert trade_off_scores(QUALITIES, SECONDS, 1.0) == pytest.approx([1.0, 0.75, 0.0])
    assert trade_off_scores(QUALITIES, SECONDS, 0.0) == pytest.approx([0.0, 1.0, 0.5])
    assert trade_off_scores(QUALITIES, SECONDS, 0.5) == pytest.approx([0.5, 0.875, 0.25])


def test_units_of_time_do_not_matter() -> None:
    in_milliseconds = trade_off_scores(QUALITIES, SECONDS * 1000)
    assert in_milliseconds == pytest.approx(trade_off_scores(QUALITIES, SECONDS))


def test_equal_methods_are_all_best() -> None:
    assert trade_off_scores(np.full(3, 0.7), np.full(3, 2.0)) == pytest.approx([1.0, 1.0, 1.0])
    assert trade_off_scores(np.array([0.7]), np.array([2.0])) == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("qualities", "seconds", "weight"),
    [
        (QUALITIES, SECONDS[:2], 0.5),
        (QUALITIES[:, None], SECONDS[:, None], 0.5),
        (QUALITIES, np.array([1.0, 0.0, 2.0]), 0.5),
        (QUALITIES, np.array([1.0, np.nan, 2.0]), 0.5),
        (np.array([1.0, np.inf, 2.0]), SECONDS, 0.5),
        (QUALITIES, SECONDS, 1.5),
    ],
)
def test_what_cannot_be_scored_is_refused(
    qualities: np.ndarray, seconds: np.ndarray, weight: float
) -> None:
    with pytest.raises(BadSettings):
        trade_off_scores(qualities, seconds, weight)
