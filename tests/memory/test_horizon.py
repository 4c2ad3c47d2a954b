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
    LONGEST_PAUSE,
    LONGEST_TRIAL,
    LOST,
    YOUNG,
    judged,
    read_horizon,
    with_trials,
)
from stream_icd.memory.memory import TRIALS, Hypothesis, Memory, TrialKind
from testbed.windows import window

LABELS = np.array([0, 0, 1, 1], np.int32)


def memory(decay: float = 0.5, n_windows: int = 1) -> Memory:
    present = Hypothesis(decay, csr_array((4, 4)), certain_posterior(LABELS, 0.1))
    at = window(0, LABELS.tolist()).window
    seen = np.ones(4, np.bool_)
    return Memory(at, pa.array(range(4)), seen, present, np.array([7, 8]), 9, n_windows)


def ahead(one: Memory, **nats: float) -> dict[TrialKind, float]:
    return {trial.kind: nats.get(trial.kind, 0.0) for trial in one.trials}


def test_a_young_graph_tries_everything_at_once_and_a_later_one_one_by_one() -> None:
    young = with_trials(memory(), TRIALS)
    assert [one.kind for one in young.trials] == list(TRIALS)
    decays = [one.hypothesis.decay for one in young.trials]
    assert decays == [0.8, 0.0, 0.5]
    assert young.trials[2].hypothesis.known.n_communities == 0
    old = with_trials(memory(n_windows=YOUNG + 1), TRIALS)
    assert [one.kind for one in old.trials] == ["longer"]
    assert with_trials(old, TRIALS).trials == old.trials


def test_there_is_nothing_shorter_than_one_window_and_nothing_longer_than_twenty() -> None:
    assert [one.kind for one in with_trials(memory(0.0), TRIALS).trials] == ["longer", "anew"]
    assert [one.kind for one in with_trials(memory(0.95), TRIALS).trials] == ["shorter", "anew"]


def test_a_trial_that_is_ahead_wins_and_communities_keep_their_ids() -> None:
    tried = with_trials(memory(), TRIALS)
    same = judged(tried, ahead(tried, longer=DECIDED), "auto")
    assert same.present.decay == 0.5
    won = judged(same, ahead(same, longer=0.1), "auto")
    assert won.present.decay == 0.8
    assert won.community_ids.tolist() == [7, 8]
    assert (won.trials, won.untried, won.n_rounds) == ((), TRIALS, 0)


def test_a_trial_ends_when_it_is_far_behind_or_after_some_windows() -> None:
    tried = with_trials(memory(), TRIALS)
    left = judged(tried, ahead(tried, longer=-LOST - 1, shorter=-LOST + 1), "auto")
    assert [one.kind for one in left.trials] == ["shorter", "anew"]
    for _ in range(LONGEST_TRIAL - 1):
        left = judged(left, ahead(left), "auto")
    assert not left.trials


def test_pauses_between_rounds_without_success_grow_up_to_a_limit() -> None:
    one, pauses = memory(n_windows=100), []
    for _ in range(6):
        waited = 0
        while not (one := with_trials(one, TRIALS)).trials:
            waited += 1
        pauses.append(waited)
        for kind in TRIALS:
            assert [trial.kind for trial in one.trials] == [kind]
            one = judged(one, {kind: -LOST - 1}, "auto")
            if kind != TRIALS[-1]:
                one = with_trials(one, TRIALS)
    assert pauses == [0, 2, 4, 8, 16, 16]
    assert max(pauses) == LONGEST_PAUSE


def test_a_given_horizon_replaces_the_one_that_was_found() -> None:
    tried = with_trials(memory(), TRIALS)
    fixed = judged(tried, ahead(tried, longer=100.0), 4.0)
    assert fixed.present.decay == 0.75
    assert not fixed.trials
    again = replace(fixed, n_windows=50)
    assert judged(again, {}, "auto").present.decay == 0.75


@pytest.mark.parametrize("text", ["", "never", "0", "0.5", "-1", "nan", "1e9"])
def test_a_horizon_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="horizon"):
        read_horizon(text)
