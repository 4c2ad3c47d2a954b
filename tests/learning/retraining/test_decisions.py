"""What a round decides: when to learn, from which windows, and whether a model is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.arrays import NOBODY
from stream_icd.core.snapshot import Window
from stream_icd.history.files import ArchivedDay, ArchivedWindow, Identity
from stream_icd.learning.retraining.gate import Measured, Paired, decide, watch
from stream_icd.learning.retraining.settings import Retraining, Rules, Sizes
from stream_icd.learning.retraining.state import ScoredWindow
from stream_icd.learning.retraining.triggers import Due, triggered
from stream_icd.learning.retraining.windows import Accumulated, Lesson
from tests.testbed.lessons import NOW, small_windows

DAY = timedelta(days=1)


def asked(n_new: int = 0, last: datetime | None = None, now: datetime = NOW, **set_: Any) -> Due:
    return triggered(Retraining("archive", **{"drift": False, **set_}), n_new, last, now)


def drift(scores: Sequence[float | None], nmi: Sequence[float | None] = ()) -> Due:
    both = zip(scores, nmi or [None] * len(scores), strict=True)
    scored = [ScoredWindow("g", f"w{at}", one, True, other) for at, (one, other) in enumerate(both)]
    return triggered(Retraining("archive"), len(scored), None, NOW, scored)


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


START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=10)


def archived(
    count: int, graphs: tuple[str, ...] = ("g",), length: timedelta = STEP
) -> list[ArchivedWindow]:
    """One begins every ten minutes, of the graphs in turn."""
    return [
        ArchivedWindow(
            ArchivedDay(START.date(), graph, "snapshots"),
            Identity(f"w{number}"),
            Window(START + number * STEP, START + number * STEP + length),
            rows=1,
            columns=(),
            headers=(),
        )
        for number, graph in zip(range(count), cycle(graphs), strict=False)
    ]


def choose_windows(
    windows: Sequence[ArchivedWindow], sizes: Sizes = Sizes(), seed: int = 0, **options: Any
) -> Any:
    return Accumulated(tuple(windows), {}, 0).choose(sizes, seed, **options)


SIZES = Sizes(newest=3, older=2, prove=4, least=2)


@given(st.integers(0, 60), st.integers(0, 60), st.none() | st.integers(1, 60), st.integers(0, 3))
def test_what_proves_is_newer_than_what_teaches(
    count: int, unseen: int, since: int | None, seed: int
) -> None:
    unseen, n_usable = min(unseen, count), count if since is None else min(since, count)
    windows = archived(count)
    usable = windows[count - n_usable :]
    chosen = choose_windows(
        windows,
        SIZES,
        seed,
        unseen=windows[count - unseen :],
        since=None if since is None else usable,
    )
    if isinstance(chosen, str):
        assert unseen < 4 or n_usable < 4 + 2
        return
    assert unseen >= 4  # the champion did not learn from them either
    assert chosen.prove == windows[count - 4 :] == usable[n_usable - 4 :]
    learn = [usable.index(window) for window in chosen.learn]
    assert learn == sorted(set(learn))
    assert max(learn) < n_usable - 4
    assert 2 <= len(learn) <= 3 + 2


def test_the_seed_alone_draws_older_windows_and_a_longer_stream_keeps_most_of_them() -> None:
    windows = archived(101)

    def older(count: int, seed: int) -> set[ArchivedWindow]:
        chosen = choose_windows(windows[:count], Sizes(older=5), seed, unseen=windows[:count])
        return set(chosen.learn[:5])

    assert older(100, 1) == older(100, 1) != older(100, 2)
    assert sum(len(older(100, seed) & older(101, seed)) for seed in range(50)) > 230  # of 250


def test_windows_of_a_graph_that_the_champion_knows_teach_beside_unseen_ones_of_another() -> None:
    windows = archived(20, ("new", "known"))
    chosen = choose_windows(windows, unseen=windows[::2])
    assert chosen.prove == windows[4::2]
    assert chosen.learn[-6:] == windows[9::2]
    few = choose_windows(windows, unseen=windows[:9], since=windows[5:])
    assert few == "4 of 8 windows after the change that the champion did not learn from"


def test_windows_that_overlap_those_that_prove_do_not_teach() -> None:
    hours = archived(40, length=timedelta(hours=1))
    chosen = choose_windows(hours, unseen=hours)
    assert chosen.prove == hours[32:]
    assert chosen.learn[-6:] == hours[21:27]
    assert hours[26].window.end == hours[32].window.start
    few = choose_windows(hours[:14], unseen=hours[:14])
    assert few == "1 of 3 windows that end before those that prove"


SNAPSHOT, LABELS = small_windows(1)[0]


def changed(**changes: object) -> Lesson:
    return Lesson.of(SNAPSHOT, replace(LABELS, **changes))  # type: ignore[arg-type]


def test_labels_are_joined_with_the_nodes_they_name() -> None:
    order = np.random.default_rng(0).permutation(len(LABELS.nodes))
    joined = changed(nodes=LABELS.nodes.take(order), labels=LABELS.labels[order])
    assert joined.known == "all nodes"
    assert joined.labels is not None
    assert len(np.unique(np.stack([joined.labels, LABELS.labels]), axis=1).T) == 8
    some = changed(nodes=LABELS.nodes[:100], labels=LABELS.labels[:100])
    assert some.known == "some nodes"
    assert some.labels is not None
    assert (some.labels == NOBODY).sum() == SNAPSHOT.n_nodes - 100
    assert some.graph(by_labels=True).labels is None  # too few to teach
    ghosts = pa.array(range(10_000, 10_003), SNAPSHOT.nodes.type)
    labels = np.append(LABELS.labels, [0, 1, 2]).astype(np.int32)
    more = changed(nodes=pa.concat_arrays([LABELS.nodes, ghosts]), labels=labels)
    assert (more.known, len(joined.labels)) == ("all nodes", SNAPSHOT.n_nodes)
    assert changed(nodes=LABELS.nodes.cast(pa.string())).known == "none"


def test_labels_that_contradict_the_edges_teach_nothing_and_some_wrong_ones_do() -> None:
    rng, labels = np.random.default_rng(1), LABELS.labels
    for wrong in (np.zeros_like(labels), rng.permutation(labels)):
        poisoned = changed(labels=wrong)
        assert (poisoned.known, poisoned.labels) == ("contradicted", None)
    flipped = rng.random(len(labels)) < 0.1
    assert changed(labels=np.where(flipped, (labels + 1) % 8, labels)).known == "all nodes"


def paired(
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


def noisy(mean: float, seed: int, count: int = 8, noise: float = 0.03) -> list[float]:
    return list(mean + noise * np.random.default_rng(seed).standard_normal(count))


def test_a_worse_or_equal_model_is_never_promoted_and_a_clearly_better_one_always() -> None:
    promoted = [
        (mean, seed)
        for mean in (0.0, -0.01, -0.1)
        for seed in range(40)
        if decide(paired(noisy(mean, seed)), Rules(), seed).promote
    ]
    assert promoted == []
    assert all(decide(paired(noisy(0.1, seed)), Rules(), seed).promote for seed in range(20))


def test_the_reason_and_the_figures_have_the_numbers() -> None:
    verdict = decide(paired([0.5] * 8, nmi=(0.8, 0.9)), Rules())
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
    assert "not clearly better" in decide(paired([0.0] * 8), Rules()).reason


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=12), st.floats(0, 0.5))
def test_what_is_promoted_for_hidden_edges_predicts_them_better(
    gains: list[float], margin: float
) -> None:
    if decide(paired(gains), Rules(margin=margin)).promote:
        assert np.mean(gains) > 2 * margin  # the champion has 2 bits


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=12), st.floats(0.001, 1))
def test_more_of_it_never_turns_a_promotion_into_a_refusal(gains: list[float], add: float) -> None:
    if decide(paired(gains), Rules()).promote:
        assert decide(paired([gain + add for gain in gains]), Rules()).promote


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
    verdict = decide(paired([0.08] * 8, **broken), Rules())
    assert not verdict.promote
    assert reason in verdict.reason


@pytest.mark.parametrize("small", [{"predicted": (1.0, 0.9)}, {"churn": (0.0, 0.7)}])
def test_a_large_gain_on_hidden_edges_outweighs_a_small_loss_with_memory_and_churn(
    small: dict[str, tuple[float, float]],
) -> None:
    """A champion that finds nothing never changes anything, so churn does not keep it."""
    assert decide(paired([0.5] * 8, **small), Rules()).promote


def test_labels_decide_between_models_equal_on_hidden_edges_but_not_a_few_or_against_them() -> None:
    verdict = decide(paired([0.0] * 8, nmi=(0.8, 0.9)), Rules())
    assert verdict.promote
    assert "NMI +10.0 points on 8 labelled windows" in verdict.reason
    poisoned = decide(paired([-0.5] * 8, nmi=(0.0, 1.0)), Rules())
    assert not poisoned.promote
    assert "perhaps worse" in poisoned.reason
    better, equal = paired([0.5] * 8), paired([0.0] * 8)
    assert decide([*better, *paired([0.5] * 3, nmi=(1.0, 0.0))], Rules()).promote
    assert not decide([*equal, *paired([0.0] * 3, nmi=(0.0, 1.0))], Rules()).promote


def test_code_that_is_compiled_meanwhile_is_no_time_of_a_model() -> None:
    slow = paired([0.5] * 8, seconds=(0.1, 1.7))
    first = replace(slow[0], champion=replace(slow[0].champion, seconds=30.0))
    assert "detection takes 1.700 s instead of 0.100" in decide([first, *slow[1:]], Rules()).reason
    same = paired([0.5] * 8)
    first = replace(same[0], challenger=replace(same[0].challenger, seconds=30.0))
    assert decide([first, *same[1:]], Rules()).promote


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
        assert watch(paired(gains[:count]), 8, Rules()).state == state


def test_a_clearly_worse_champion_is_found_before_the_watch_ends() -> None:
    for seed in range(10):
        worse = watch(paired(noisy(-0.1, seed, count=4)), 8, Rules(), seed)
        assert worse.state == "worse"
    assert "4 of 8 windows since the swap" in worse.reason
