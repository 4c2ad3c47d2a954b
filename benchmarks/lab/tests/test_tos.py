import numpy as np
import pytest

from benchmarks.lab.tos import Measure, trade_off_scores
from stream_icd.core.errors import BadSettings

QUALITIES = np.array([0.9, 0.8, 0.5])
SECONDS = np.array([10.0, 0.1, 1.0])


@pytest.mark.parametrize("measure", ["nmi", "ac"])
def test_an_agreement_counts_as_it_is(measure: Measure) -> None:
    scores = trade_off_scores(QUALITIES, SECONDS, measure)
    assert scores == pytest.approx([0.9 * 0, 0.8 * 0.99, 0.5 * 0.9])


def test_modularity_counts_from_its_lowest_value() -> None:
    scores = trade_off_scores(np.array([-1.0, 0.0, 0.5]), np.array([1.0, 2.0, 4.0]), "modularity")
    assert scores == pytest.approx([0.0, 0.5 * 0.5, 0.75 * 0])


def test_ncut_counts_by_how_far_it_is_below_the_highest() -> None:
    scores = trade_off_scores(np.array([20.0, 5.0, 0.0]), np.array([1.0, 1.0, 2.0]), "ncut")
    assert scores == pytest.approx([0.0, 0.75 * 0.5, 0.0])


def test_cuts_of_zero_are_all_perfect() -> None:
    scores = trade_off_scores(np.zeros(2), np.array([1.0, 2.0]), "ncut")
    assert scores == pytest.approx([0.5, 0.0])


def test_units_of_time_do_not_matter() -> None:
    in_milliseconds = trade_off_scores(QUALITIES, SECONDS * 1000, "nmi")
    assert in_milliseconds == pytest.approx(trade_off_scores(QUALITIES, SECONDS, "nmi"))


@pytest.mark.parametrize(
    ("qualities", "seconds", "measure", "complaint"),
    [
        (QUALITIES, SECONDS[:2], "nmi", "must both be"),
        (QUALITIES[:, None], SECONDS[:, None], "nmi", "must both be"),
        (QUALITIES, np.array([1.0, 0.0, 2.0]), "nmi", "seconds must be"),
        (QUALITIES, np.array([1.0, np.nan, 2.0]), "nmi", "seconds must be"),
        (100 * QUALITIES, SECONDS, "nmi", "as fractions"),
        (np.array([1.0, np.nan, 0.5]), SECONDS, "ac", "as fractions"),
        (-2 * QUALITIES, SECONDS, "modularity", "as fractions"),
        (np.array([1.0, np.inf, 2.0]), SECONDS, "ncut", "must be in"),
        (QUALITIES, SECONDS, "purity", "no measure 'purity'"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    qualities: np.ndarray, seconds: np.ndarray, measure: Measure, complaint: str
) -> None:
    with pytest.raises(BadSettings, match=complaint):
        trade_off_scores(qualities, seconds, measure)
