"""How far back a graph looks: which trials there are, and when one wins."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.level_graph import rows_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.posterior import certain_posterior
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.horizon import (
    DECIDED,
    LONGEST_TRIAL,
    check_horizon,
    judged,
    read_horizon,
    with_trial,
)
from stream_icd.methods.memory.memory import LONGEST, Hypothesis, Memory
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.drift import generate_drifting_lfr
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from tests.testbed.windows import window

LABELS = np.array([0, 0, 1, 1], np.int32)


def memory(decay: float = 0.5) -> Memory:
    present = Hypothesis(decay, rows_of(csr_array((4, 4))), certain_posterior(LABELS, 0.1))
    at = window(0, LABELS.tolist()).window
    seen = np.ones(4, np.bool_)
    return Memory(at, pa.array(range(4)), seen, present, np.array([7, 8]), 9)


def tried(one: Memory) -> float | None:
    return None if one.trial is None else one.trial.hypothesis.decay


def failed(one: Memory) -> Memory:
    """After the trial lost by as much as decides."""
    return judged(one, -2 * DECIDED, "auto")


def test_the_shortest_horizon_is_tried_first() -> None:
    first = with_trial(memory())
    assert tried(first) == 0.0
    assert with_trial(first) is first
    assert tried(with_trial(failed(first))) == 0.95


@pytest.mark.parametrize(
    ("present", "others"),
    [(0.0, (0.5, 0.95)), (0.95, (0.0, 0.5)), (0.75, (0.0, 0.5, 0.95)), (0.99, (0.0, 0.5, 0.95))],
)
def test_all_others_are_tried_also_of_a_horizon_that_was_given(
    present: float, others: tuple[float, ...]
) -> None:
    one = memory(present)
    for other in others:
        one = with_trial(one)
        assert tried(one) == other
        assert judged(one, DECIDED, "auto").present.decay == other
        one = failed(one)


def test_a_trial_wins_when_it_is_far_enough_ahead_and_communities_keep_their_ids() -> None:
    ahead = judged(with_trial(memory()), 0.9 * DECIDED, "auto")
    assert (ahead.present.decay, tried(ahead)) == (0.5, 0.0)
    won = judged(ahead, 0.2 * DECIDED, "auto")
    assert won.present.decay == 0.0
    assert won.community_ids.tolist() == [7, 8]
    assert (won.trial, won.n_failed) == (None, 0)


def test_windows_add_up_and_the_next_trial_begins_even() -> None:
    lost = failed(judged(with_trial(memory()), 0.9 * DECIDED, "auto"))
    assert lost.trial is None
    second = with_trial(lost)
    assert second.trial is not None
    assert (second.trial.windows, second.trial.ahead) == (0, 0.0)


def test_an_undecided_trial_ends_after_some_windows() -> None:
    one = with_trial(memory())
    for _ in range(LONGEST_TRIAL - 1):
        one = judged(one, 0.0, "auto")
        assert tried(one) == 0.0
    assert tried(judged(one, 0.0, "auto")) is None


def test_pauses_grow_with_the_length_of_trials_and_with_rounds_up_to_a_limit() -> None:
    for n_windows in (1, 3):
        one, pauses = memory(), []
        for other in 8 * (0.0, 0.95):
            waited = 0
            while (one := with_trial(one)).trial is None:
                waited += 1
            pauses.append(waited)
            for _ in range(n_windows - 1):
                one = judged(one, 0.0, "auto")
            assert tried(one) == other
            one = failed(one)
        expected = n_windows * np.array([0, 0, 0, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 8, 8, 8])
        assert pauses == expected.tolist()


def test_trials_of_the_longest_horizon_begin_with_its_own_evidence() -> None:
    own = rows_of(csr_array(np.eye(4)[::-1].copy()))
    one = replace(memory(), longest=own)
    for begins in (own, own, one.present.evidence):
        while tried(one) != LONGEST:
            one = with_trial(one if one.trial is None else failed(one))
        assert one.trial is not None
        assert one.trial.hypothesis.evidence is begins
        assert one.longest is None
        one = failed(one)
    won = judged(with_trial(replace(one, wait=0)), DECIDED, "auto")
    assert (won.present.decay, won.longest) == (0.0, one.present.evidence)


def test_the_evidence_of_the_longest_horizon_is_gathered_beside_a_shorter_one() -> None:
    pair = LfrSettings(n_nodes=200, mixing=0.3)
    found: list[Remembered] = []
    for number, (graph, _) in enumerate(generate_drifting_lfr(0, 3, pair)):
        given = graph.adjacency(), pa.array(range(200)), window(number, []).window
        before = found[-1].memory if found else None
        found.append(detect_window(*given, BpParameters(), before))
        fixed = detect_window(*given, BpParameters(), before, horizon=4.0)
        assert fixed.memory.longest is None
    longest, short = found[-1].memory.longest, found[-1].memory.present.evidence
    assert longest is not None
    assert longest.weights.sum() > 1.4 * short.weights.sum()
    assert len(longest.indices) == len(short.indices)
    assert found[-1].memory.present.decay == 0.5


def test_a_given_horizon_replaces_the_one_that_was_found() -> None:
    fixed = judged(with_trial(memory()), 100.0, 4.0)
    assert (fixed.present.decay, fixed.trial) == (0.75, None)
    assert judged(fixed, 0.0, "auto").present.decay == 0.75


@pytest.mark.parametrize("text", ["", "never", "0", "0.5", "-1", "nan", "1e9"])
def test_a_horizon_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="horizon"):
        read_horizon(text)


def test_an_array_of_horizons_is_refused() -> None:
    with pytest.raises(BadSettings, match="horizon array"):
        check_horizon(np.array([5.0]))  # type: ignore[arg-type]


def test_a_new_model_starts_trials_and_searches_anew() -> None:
    planted = generate_lfr(np.random.default_rng(0), LfrSettings(n_nodes=200, mixing=0.3))
    given = planted.adjacency(), pa.array(range(200)), window(1, []).window
    first = detect_window(*given, BpParameters()).memory
    waits = replace(first, n_failed=4, wait=3, n_vain_searches=2, search_wait=3)
    same, other = (
        detect_window(*given[:2], window(2, []).window, bp, waits).memory
        for bp in (BpParameters(), BpParameters(stay=0.4))
    )
    assert (tried(same), same.wait, same.search_wait) == (None, 2, 2)
    assert (tried(other), other.n_failed, other.n_vain_searches) == (0.0, 0, 1)


def test_communities_that_misled_do_not_last_when_a_better_model_comes() -> None:
    # The demonstration at its size: a model that does not fit, then the one that was learned.
    n_before, n_after = 16, 12
    settings = LfrSettings(n_nodes=2000, mixing=0.55)
    drifting = generate_drifting_lfr(2**32, n_before + n_after, settings)
    better = BpParameters(resolution=8.0, mixing=0.58, iterations=1, stay=0.98)
    found: list[Remembered] = []
    agreement = []
    for number, (graph, _) in enumerate(drifting):
        bp = open_model("gn").model.bp if number < n_before else better
        remembered = detect_window(
            graph.adjacency(),
            pa.array(range(graph.n_nodes)),
            window(number, []).window,
            bp,
            found[-1].memory if found else None,
            graph.n_communities,
        )
        found.append(remembered)
        agreement.append(nmi(graph.communities, remembered.communities))
    decays = [one.memory.present.decay for one in found]
    changed = [now != before for before, now in pairwise(decays)]
    untold = [one.moved is None for one in found[1:]]
    assert any(changed)
    assert all(none for none, new in zip(untold, changed, strict=True) if new)
    assert not all(untold)
    assert max(agreement[n_before - 4 : n_before]) < 0.9
    assert min(agreement[-4:]) > 0.85
