"""The gate: a worse model is never promoted, a better one is."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.learning.retraining.gate import Measured, Paired, decide, watch
from stream_icd.learning.retraining.settings import Rules


def _paired(
    gains: Sequence[float],
    nmi: tuple[float, float] | None = None,
    churn: tuple[float, float] | None = None,
    seconds: tuple[float, float] = (0.1, 0.1),
    level: float = 2.0,
    predicted: tuple[float, float] | None = None,
) -> list[Paired]:
    rest = [(None, None) if both is None else both for both in (nmi, churn, predicted)]
    old, new = ((time, *values) for time, *values in zip(seconds, *rest, strict=True))
    return [Paired(Measured(level, *old), Measured(level + gain, *new)) for gain in gains]


def _noisy(mean: float, seed: int, count: int = 8, noise: float = 0.03) -> list[float]:
    return list(mean + noise * np.random.default_rng(seed).standard_normal(count))


def test_a_worse_or_equal_model_is_never_promoted_and_a_clearly_better_one_always() -> None:
    promoted = [
        (mean, seed)
        for mean in (0.0, -0.01, -0.1)
        for seed in range(40)
        if decide(_paired(_noisy(mean, seed)), Rules(), seed).promote
    ]
    assert promoted == []
    assert all(decide(_paired(_noisy(0.1, seed)), Rules(), seed).promote for seed in range(20))


def test_the_reason_and_the_figures_have_the_numbers() -> None:
    verdict = decide(_paired([0.5] * 8, nmi=(0.8, 0.9)), Rules())
    assert verdict.promote
    assert verdict.reason == (
        "better: hidden edges +0.500 bits an edge on 8 windows, with 99% confidence at least "
        "+0.500; margin 0.010"
    )
    bits, nmi, seconds = verdict.figures
    assert (bits.measure, nmi.measure) == ("hidden edges, bits an edge", "NMI, %")
    assert seconds.measure == "detection, ms of processor time"
    assert [bits.champion, bits.challenger] == pytest.approx([2.0, 2.5])
    assert nmi.low == pytest.approx(10.0)
    assert "not clearly better" in decide(_paired([0.0] * 8), Rules()).reason


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12), st.floats(0, 0.5))
def test_what_is_promoted_for_hidden_edges_predicts_them_better(
    gains: list[float], margin: float
) -> None:
    if decide(_paired(gains), Rules(margin=margin)).promote:
        assert np.mean(gains) > 2 * margin  # the champion has 2 bits


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=12), st.floats(0.001, 1))
def test_more_of_it_never_turns_a_promotion_into_a_refusal(gains: list[float], add: float) -> None:
    if decide(_paired(gains), Rules()).promote:
        assert decide(_paired([gain + add for gain in gains]), Rules()).promote


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"nmi": (0.9, 0.8)}, "NMI falls by 10.0 points"),
        ({"churn": (0.1, 0.3)}, "churn rises from 10% to 30%"),
        ({"predicted": (1.0, 0.2)}, "with memory, prediction of the next window falls by 0.800"),
        ({"seconds": (0.1, 1.9)}, "detection takes 1.900 s instead of 0.100"),
    ],
)
def test_each_guard_vetoes_a_model_better_on_hidden_edges(
    broken: dict[str, tuple[float, float]], reason: str
) -> None:
    verdict = decide(_paired([0.08] * 8, **broken), Rules())
    assert not verdict.promote
    assert reason in verdict.reason


@pytest.mark.parametrize("small", [{"predicted": (1.0, 0.9)}, {"churn": (0.0, 0.7)}])
def test_a_large_gain_on_hidden_edges_outweighs_a_small_loss_with_memory_and_churn(
    small: dict[str, tuple[float, float]],
) -> None:
    """A champion that finds nothing never changes anything, so churn does not keep it."""
    assert decide(_paired([0.5] * 8, **small), Rules()).promote


def test_labels_decide_between_models_equal_on_hidden_edges_but_not_a_few_or_against_them() -> None:
    verdict = decide(_paired([0.0] * 8, nmi=(0.8, 0.9)), Rules())
    assert verdict.promote
    assert "NMI +10.0 points on 8 labelled windows" in verdict.reason
    poisoned = decide(_paired([-0.5] * 8, nmi=(0.0, 1.0)), Rules())
    assert not poisoned.promote
    assert "perhaps worse" in poisoned.reason
    better, equal = _paired([0.5] * 8), _paired([0.0] * 8)
    assert decide([*better, *_paired([0.5] * 3, nmi=(1.0, 0.0))], Rules()).promote
    assert not decide([*equal, *_paired([0.0] * 3, nmi=(0.0, 1.0))], Rules()).promote


def test_code_that_is_compiled_meanwhile_is_no_time_of_a_model() -> None:
    slow = _paired([0.5] * 8, seconds=(0.1, 1.7))
    first = replace(slow[0], champion=replace(slow[0].champion, seconds=30.0))
    assert "detection takes 1.700 s instead of 0.100" in decide([first, *slow[1:]], Rules()).reason
    same = _paired([0.5] * 8)
    first = replace(same[0], challenger=replace(same[0].challenger, seconds=30.0))
    assert decide([first, *same[1:]], Rules()).promote


@pytest.mark.parametrize("count", [0, 3])
def test_few_windows_prove_nothing(count: int) -> None:
    verdict = decide(_paired([0.5] * count), Rules())
    assert (verdict.promote, verdict.reason) == (False, f"{count} windows could be read; need 4")


@pytest.mark.parametrize(
    ("gains", "states"),
    [
        ([0.1] * 8, {3: "watching", 5: "watching", 8: "confirmed"}),
        ([0.001, -0.001] * 4, {8: "confirmed"}),
        ([0.05, -0.1] * 4, {6: "watching", 8: "worse"}),  # slightly worse: when the watch ends
    ],
)
def test_a_new_champion_is_watched_until_it_is_confirmed_or_worse(
    gains: list[float], states: dict[int, str]
) -> None:
    for count, state in states.items():
        assert watch(_paired(gains[:count]), 8, Rules()).state == state


def test_a_clearly_worse_champion_is_found_before_the_watch_ends() -> None:
    for seed in range(10):
        worse = watch(_paired(_noisy(-0.1, seed, count=4)), 8, Rules(), seed)
        assert worse.state == "worse"
    assert "4 of 8 windows since the swap" in worse.reason
