"""How far back a graph looks: which trials there are, and when one wins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.bp.dynamic.posterior import certain_posterior
from stream_icd.errors import BadSettings
from stream_icd.memory.horizon import (
    DECIDED,
    FADING,
    LONGEST_PAUSE,
    LONGEST_TRIAL,
    judged,
    read_horizon,
    with_trial,
)
from stream_icd.memory.memory import Hypothesis, Memory
from testbed.windows import window

LABELS = np.array([0, 0, 1, 1], np.int32)


def memory(decay: float = 0.5) -> Memory:
    present = Hypothesis(decay, csr_array((4, 4)), certain_posterior(LABELS, 0.1))
    at = window(0, LABELS.tolist()).window
    seen = np.ones(4, np.bool_)
    return Memory(at, pa.array(range(4)), seen, present, np.array([7, 8]), 9)


def tried(one: Memory) -> float | None:
    return None if one.trial is None else one.trial.hypothesis.decay


def failed(one: Memory) -> Memory:
    """After the trial lost by as much as decides."""
    return judged(one, -2 * DECIDED, "auto")


def test_a_longer_horizon_is_tried_first_then_a_shorter_one() -> None:
    first = with_trial(memory())
    assert tried(first) == 0.95
    assert with_trial(first) is first
    assert tried(with_trial(failed(first))) == 0.0


@pytest.mark.parametrize(
    ("present", "neighbour"), [(0.0, 0.5), (0.95, 0.5), (0.75, 0.95), (0.99, 0.95)]
)
def test_neighbours_are_tried_also_of_a_horizon_that_was_given(
    present: float, neighbour: float
) -> None:
    one = with_trial(memory(present))
    assert tried(one) == neighbour
    assert judged(one, 1.0, "auto").present.decay == neighbour


def test_a_trial_that_is_ahead_wins_and_communities_keep_their_ids() -> None:
    same = judged(with_trial(memory()), 0.0, "auto")
    assert same.present.decay == 0.5
    won = judged(same, 0.1, "auto")
    assert won.present.decay == 0.95
    assert won.community_ids.tolist() == [7, 8]
    assert (won.trial, won.n_failed, won.leads) == (None, 0, (0.0, 0.1))


def test_what_was_compared_before_counts_less_with_each_comparison() -> None:
    lost = failed(with_trial(memory()))
    assert lost.leads == (0.0, -2 * DECIDED)
    again = with_trial(replace(lost, n_failed=2, wait=0))
    assert tried(again) == 0.95
    again = judged(again, 2 * FADING * DECIDED, "auto")
    assert (again.present.decay, again.leads) == (0.5, (0.0, 0.0))
    assert judged(again, 0.1, "auto").present.decay == 0.95


def test_a_shorter_horizon_wins_by_the_same_sum() -> None:
    ahead = replace(memory(0.95), leads=(0.0, 4.0))
    still = judged(with_trial(ahead), 3.0, "auto")
    assert (still.present.decay, still.leads) == (0.95, (0.0, FADING * 4 - 3))
    assert judged(still, 0.6, "auto").present.decay == 0.5


def test_an_undecided_trial_ends_after_some_windows() -> None:
    one = with_trial(memory())
    for _ in range(LONGEST_TRIAL - 1):
        one = judged(one, 0.0, "auto")
        assert tried(one) == 0.95
    assert tried(judged(one, 0.0, "auto")) is None


def test_pauses_between_rounds_without_success_grow_up_to_a_limit() -> None:
    one, pauses = memory(), []
    for _ in range(7):
        waited = 0
        while (one := with_trial(one)).trial is None:
            waited += 1
        pauses.append(waited)
        second = with_trial(failed(one))
        assert (tried(one), tried(second)) == (0.95, 0.0)
        one = failed(second)
    assert pauses == [0, 1, 2, 4, 8, 16, 16]
    assert max(pauses) == LONGEST_PAUSE


def test_a_given_horizon_replaces_the_one_that_was_found() -> None:
    fixed = judged(with_trial(memory()), 100.0, 4.0)
    assert (fixed.present.decay, fixed.trial) == (0.75, None)
    assert judged(fixed, 0.0, "auto").present.decay == 0.75


@pytest.mark.parametrize("text", ["", "never", "0", "0.5", "-1", "nan", "1e9"])
def test_a_horizon_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="horizon"):
        read_horizon(text)
