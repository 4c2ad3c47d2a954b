"""Rounds of retraining on an archive: what is decided, and what survives being killed."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core.communities import Labels
from stream_icd.core.errors import OverBudget, Overloaded
from stream_icd.core.snapshot import Window
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.history.compaction import compact_archive
from stream_icd.learning.retraining import learn as learning
from stream_icd.learning.retraining import retrain as rounds
from stream_icd.learning.retraining.learn import Made, TrainingJob, learn_job, run_training
from stream_icd.learning.retraining.retrain import Decision, retrain
from stream_icd.learning.retraining.settings import Retraining, Sizes
from stream_icd.learning.retraining.state import BegunTraining, RetrainerState, ScoredWindow
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.aliases import Aliases, champion, history, roll_back
from stream_icd.registry.find import folder_of
from stream_icd.registry.model import PackedModel
from stream_icd.registry.versions import open_version, read_lineage, version_folder, versions
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.wire.communities import encode_labels
from tests.testbed.children import die, run_until_killed
from tests.testbed.lessons import NOW, SMALL_ENCODER, add_to_archive, make_champion, small_windows

RECIPE = Recipe(name="made-up")
GOOD = Model(RECIPE, BpParameters(mixing=0.5))
JOINS_ALL = Model(RECIPE, BpParameters(resolution=0.01))
LEARNED = Model(RECIPE.changed(name="other"), BpParameters(mixing=0.5), Model(RECIPE).weights)
BUDGET = Retraining("archive").budget


def quick(job: TrainingJob, _budget: Allowance) -> object:
    """Run a job in this process; learning takes no time, and has a good result."""
    if not (isinstance(job, partial) and job.func is learn_job):
        return job()
    learned_from = tuple(
        SimpleNamespace(window="w", by="edges" if labels is None else "labels", known="none")
        for _, labels in job.args[1]
    )
    return Made(PackedModel.of(LEARNED), learned_from)  # type: ignore[arg-type]


def here(job: TrainingJob, _budget: Allowance) -> object:
    return job()


class Retrainer:
    """An archive and a registry in a folder, and rounds on them."""

    def __init__(self, folder: Path) -> None:
        self.registry = open_store(str(folder / "registry"))
        self.settings = Retraining(
            archive=str(folder / "archive"),
            every_windows=4,
            drift=False,
            sizes=Sizes(newest=2, older=1, prove=4, least=1),
            watch=4,
            encoder=RECIPE,  # learns none: that is tested in test_learn.py
        )

    def set(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)

    def archive(self, until: int, *, since: int = 0, labels: bool = False) -> None:
        add_to_archive(self.settings.archive, small_windows(until)[since:], labels=labels)

    def archive_of_year(self, year: int, graph: str, count: int) -> None:
        """Archive windows of another graph, whose minutes are in this year."""
        minute, windows = timedelta(minutes=1), []
        for number, (snapshot, labels) in enumerate(small_windows(count, seed=year)):
            begin = datetime(year, 1, 1, tzinfo=UTC) + number * minute
            window = Window(begin, begin + minute)
            windows.append((replace(snapshot, graph=graph, window=window), labels))
        add_to_archive(self.settings.archive, windows)

    def archive_labels(
        self, labels: Iterable[Labels], change: Callable[[Labels], Labels] = lambda one: one
    ) -> None:
        archive = Archive(open_store(self.settings.archive))
        for one in labels:
            archive.add("labels", encode_labels(change(one)))

    def damage(self, *windows: int) -> None:
        for window in windows:
            [file] = Path(self.settings.archive).rglob(f"w-{window:06}-*.parquet")
            content = file.read_bytes()
            file.write_bytes(content[:700] + bytes(400) + content[1100:])  # its footer is whole

    def crown(self, *models: Model) -> str:
        return [make_champion(self.registry, model) for model in models][-1]

    def uncrown(self) -> None:
        roll_back(self.registry, "by hand", NOW, by="test", seen=self.aliases)

    @property
    def aliases(self) -> Aliases:
        return champion(self.registry)

    @property
    def champion(self) -> str:
        return self.aliases.champion

    @property
    def state(self) -> RetrainerState:
        return RetrainerState.read(self.registry, self.settings.name)

    @state.setter
    def state(self, state: RetrainerState) -> None:
        state.write(self.registry, self.settings.name)

    def round(
        self, *, run: Callable[[Any, Allowance], object] = quick, now: datetime = NOW, **more: Any
    ) -> Decision:
        return retrain(self.registry, self.settings, now, run=run, **more)

    def decides(self, outcome: str, *words: str, **more: Any) -> Decision:
        """Make a round, whose decision is this one, with all these words in its reason."""
        decided = self.round(**more)
        assert decided.outcome == outcome, decided.reason
        assert [word for word in words if word not in decided.reason] == [], decided.reason
        return decided

    def watch_a_worse_champion(self) -> str:
        """Promote a worse model, and archive what shows it; return the version before."""
        self.archive(3)
        good = self.crown(GOOD)
        self.crown(JOINS_ALL)
        self.decides("not now", "watching the new champion: 0 of 4 windows since the swap")
        self.archive(7, since=3)
        return good

    def killed_at(self, step: str) -> None:
        """Make a round in a process that is killed when it begins this step."""

        def die_there(reached: str) -> None:
            if reached == step:
                die()

        run_until_killed(partial(self.round, on_step=die_there))


@pytest.fixture
def retrainer(tmp_path: Path) -> Retrainer:
    return Retrainer(tmp_path)


@pytest.fixture
def on_drift(retrainer: Retrainer) -> Retrainer:
    """It learns when scores of its good champion have changed."""
    retrainer.set(every_windows=None, drift=True)
    retrainer.crown(GOOD)
    return retrainer


def test_an_empty_registry_gets_its_first_champion_and_the_reason_says_what_the_archive_lacks(
    retrainer: Retrainer,
) -> None:
    first = retrainer.decides("first champion")
    assert retrainer.champion == first.champion
    assert first.champion.startswith("default@")
    place = retrainer.settings.archive
    retrainer.decides("not now", f"0 of 4 new windows; there is no archive at {place}: ")
    retrainer.archive(1)
    retrainer.set(graph="smal")
    for asked in (False, True):
        retrainer.decides("not now", "; it holds small; did you mean small?", asked=asked)


def test_another_program_may_make_the_first_champion(
    retrainer: Retrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(name: str) -> Store:
        retrainer.crown(GOOD)
        return folder_of(name)

    monkeypatch.setattr(rounds, "folder_of", meanwhile)
    first = retrainer.decides("first champion")
    assert (first.champion, first.reason) == (retrainer.champion, "test")


def test_a_better_model_is_promoted_with_its_lineage_and_proves_itself_on_newer_windows(
    retrainer: Retrainer,
) -> None:
    worse = retrainer.crown(JOINS_ALL)
    retrainer.archive(7, labels=True)
    promoted = retrainer.decides("promoted")
    aliases = retrainer.aliases
    assert aliases.champion == promoted.champion == promoted.challenger
    assert aliases.previous == worse
    assert "7 of 4 new windows" in aliases.reason
    lineage = read_lineage(retrainer.registry, promoted.champion)
    assert lineage.parent == worse
    assert (lineage.data.windows, lineage.data.labelled) == (3, 3)
    assert lineage.gate.start >= lineage.data.end
    assert lineage.gate.passed
    measures = [figure.measure for figure in lineage.gate.figures]
    assert measures[:2] == ["hidden edges, bits an edge", "NMI, %"]
    retrainer.set(watch=1)
    retrainer.archive(8, since=7)
    retrainer.decides("confirmed")
    # It did not learn from 5 windows: those of the last gate prove again.
    retrainer.decides("kept", asked=True)


def test_too_few_windows_are_said_and_an_equal_model_is_not_promoted(retrainer: Retrainer) -> None:
    good = retrainer.crown(GOOD)
    retrainer.archive(4)
    retrainer.decides("not now", "4 of 4 new windows, but there are 4 of 5 windows")
    retrainer.decides("not now", "asked by command", asked=True)
    retrainer.archive(7, since=4)
    retrainer.decides("kept", "7 of 4 new windows: not clearly better")
    assert retrainer.champion == good
    assert versions(retrainer.registry) == [good]  # those that lose leave nothing
    retrainer.decides("not now", "0 of 4 new windows")


def test_windows_far_in_the_future_and_labels_of_none_are_not_used_but_counted(
    retrainer: Retrainer,
) -> None:
    retrainer.crown(GOOD)
    retrainer.archive(3)
    retrainer.archive_labels(known for _, known in small_windows(5)[2:])
    retrainer.archive_of_year(2099, "small", 1)
    why = "; 1 windows are not used, since they end more than 31 days ahead of the clock, such as"
    early = retrainer.decides("not now", f"3 of 4 new windows{why}")
    assert (early.windows, early.labelled, early.strayed, early.ahead) == (3, 1, 2, 1)
    retrainer.archive(7, since=3)
    retrainer.decides("kept")
    retrainer.decides("not now", f"0 of 4 new windows{why}")


def test_an_attempt_by_a_clock_far_ahead_does_not_keep_others_off(retrainer: Retrainer) -> None:
    retrainer.crown(GOOD)
    retrainer.archive(7)
    retrainer.set(every_windows=None, every=timedelta(days=1))
    times = [NOW + timedelta(days=days) for days in (3650, 0, 0.9, 1)]
    outcomes = [retrainer.round(now=now).outcome for now in times]
    assert outcomes == ["kept", "not now", "not now", "kept"]


def test_a_graph_of_the_past_counts_beside_one_of_today(retrainer: Retrainer) -> None:
    retrainer.crown(JOINS_ALL)
    retrainer.archive(7)
    retrainer.decides("promoted")
    retrainer.archive_of_year(1999, "old", 3)
    retrainer.decides("not now", "3 of 4 windows since the swap")
    retrainer.archive_of_year(1999, "old", 4)
    retrainer.decides("confirmed")
    retrainer.decides("kept", asked=True)
    lineage = read_lineage(retrainer.registry, retrainer.champion)
    assert list(lineage.data.until()) == ["small"]
    retrainer.archive_of_year(1999, "older", 3)
    retrainer.decides("not now", "3 of 4 new windows")


@pytest.mark.parametrize("step", [None, "roll back", "remember"])
def test_a_worse_champion_is_rolled_back_also_if_the_round_is_killed(
    retrainer: Retrainer, step: str | None
) -> None:
    good = retrainer.watch_a_worse_champion()
    if step is not None:
        retrainer.killed_at(step)
    is_back = retrainer.champion == good
    assert is_back == (step == "remember")
    decided = retrainer.decides("not now" if is_back else "rolled back")
    retrainer.decides("not now", asked=True)  # from the same windows
    assert retrainer.champion == good == decided.champion
    assert len(history(retrainer.registry)) == 3


@pytest.mark.parametrize("newer", ["of the same graph", "of a graph of the past"])
def test_after_a_rollback_only_newer_windows_prove_a_model(
    retrainer: Retrainer, newer: str
) -> None:
    before = retrainer.crown(JOINS_ALL)
    retrainer.crown(GOOD)
    retrainer.archive(7)
    retrainer.round()
    retrainer.uncrown()
    # Also a retrainer that has forgotten all knows it.
    retrainer.registry.delete("retraining/retrained.json")
    # What it learns is far better on these windows.
    few = "0 of 4 windows that the champion did not learn from"
    retrainer.decides("not now", few, "they count from the last rollback on", asked=True)
    assert retrainer.champion == before
    if newer == "of the same graph":
        retrainer.archive(11, since=7)
    else:
        retrainer.archive_of_year(1999, "old", 4)
    retrainer.decides("promoted", asked=True)


def test_a_rollback_during_the_watch_is_not_confirmed(retrainer: Retrainer) -> None:
    retrainer.archive(3)
    before = retrainer.crown(JOINS_ALL)
    retrainer.crown(GOOD)
    retrainer.round()
    retrainer.archive(7, since=3)

    def rolled_back_meanwhile(job: TrainingJob, budget: Allowance) -> object:
        retrainer.uncrown()
        return quick(job, budget)

    became = f"{before} became the champion meanwhile"
    assert retrainer.decides("not now", became, run=rolled_back_meanwhile).generation == 2
    retrainer.decides("not now")


def test_a_good_champion_is_confirmed_and_windows_are_compared_once_while_no_more_come(
    retrainer: Retrainer,
) -> None:
    retrainer.archive(3)
    good = retrainer.crown(JOINS_ALL, GOOD)
    retrainer.round()
    jobs: list[TrainingJob] = []

    def counted(job: TrainingJob, budget: Allowance) -> object:
        jobs.append(job)
        return quick(job, budget)

    for since, until in ((3, 5), (5, 6)):
        retrainer.archive(until, since=since)
        words = f"{until - 3} of 4 windows"
        one, other = (retrainer.decides("not now", words, run=counted) for _ in range(2))
        assert one == other
    assert len(jobs) == 2
    retrainer.archive(7, since=6)

    def killed(_job: TrainingJob, _budget: Allowance) -> object:
        raise Overloaded("out of memory")

    assert retrainer.decides("failed", run=killed).champion == good
    retrainer.decides("confirmed")
    assert retrainer.champion == good


def test_while_the_archive_is_away_nothing_is_noticed_or_forgotten(retrainer: Retrainer) -> None:
    retrainer.crown(JOINS_ALL)
    retrainer.archive(7)
    marks = {"small": NOW}
    begun = RetrainerState(1, attempted=marks, begun=BegunTraining(marks, "long ago", None))
    retrainer.state = begun
    archive = Path(retrainer.settings.archive)
    away = archive.rename(archive.parent / "away")
    retrainer.crown(GOOD)
    retrainer.decides("not now", "the windows of earlier rounds are gone; there")
    assert retrainer.state == begun
    away.rename(archive)
    retrainer.decides("not now", "0 of 4 windows since the swap")


def test_a_rollback_with_the_number_of_a_deleted_promotion_is_noticed(retrainer: Retrainer) -> None:
    retrainer.archive(3)
    retrainer.crown(JOINS_ALL, GOOD, LEARNED)
    retrainer.decides("not now", "watching the new champion")
    retrainer.registry.delete("aliases/00000003.json")
    retrainer.uncrown()
    assert retrainer.aliases.generation == 3
    assert "watching" not in retrainer.round().reason
    assert retrainer.state.rolled_back is not None


def test_scores_of_a_champion_that_was_deleted_are_not_those_of_the_first_one(
    retrainer: Retrainer,
) -> None:
    """As where aliases are restored from a backup."""
    retrainer.set(every_windows=None, drift=True)
    retrainer.crown(JOINS_ALL, GOOD)
    retrainer.state = RetrainerState(2, retrainer.aliases.id)
    retrainer.archive(3)
    retrainer.round()
    before = retrainer.state.scored
    retrainer.registry.delete("aliases/00000002.json")
    retrainer.round()
    after = retrainer.state.scored
    assert [window.name for window in before] == [window.name for window in after]
    assert before != after


def test_a_state_of_the_most_windows_or_of_an_earlier_version_is_read_and_a_damaged_one_made_anew(
    retrainer: Retrainer,
) -> None:
    scored = ScoredWindow("a graph", "a graph/2026-01-01T00:00:00Z/PT1H", 1 / 3, True, 2 / 3)
    state = RetrainerState(scored=10_000 * (scored,), rolled_back={"a graph": NOW})
    retrainer.state = state
    assert retrainer.state == state
    old = b'{"format": 2, "scored": [{"graph": "g", "window": "w", "evidence": 0.5}]}'
    newer, damaged = b'{"format": 99}', b"{half"
    for content, windows, reasons in (
        (old, (ScoredWindow("g", "w", 0.5),), []),
        (newer, (), ["retrained.json has format 99 and this version reads up to"]),
        (damaged, (), ["retrained.json"]),
    ):
        retrainer.registry.put("retraining/retrained.json", pa.py_buffer(content))
        with capture_logs() as logs:
            assert retrainer.state == RetrainerState(scored=windows)
        for reason, line in zip(reasons, logs, strict=True):
            assert reason in line["reason"]


def test_drift_asks_for_a_new_model(on_drift: Retrainer) -> None:
    on_drift.archive(10)
    on_drift.decides("not now", "no drift in 10 windows")
    later = small_windows(16, p_in=0.95)[10:]
    add_to_archive(on_drift.settings.archive, later[:2])
    on_drift.decides("not now", "drift 2 windows ago", "2 of 5 windows after the change")
    add_to_archive(on_drift.settings.archive, later[2:])
    assert on_drift.round().outcome in ("kept", "promoted")


def test_drift_of_nmi_asks_for_a_new_model_also_when_labels_come_late(on_drift: Retrainer) -> None:
    on_drift.archive(9, labels=True)
    on_drift.archive(13, since=9)
    of_nmi = "no drift in 9 windows (NMI about"
    on_drift.decides("not now", "no drift in 13 windows (hidden edges about", of_nmi)
    rng = np.random.default_rng(0)

    def partly_wrong(known: Labels) -> Labels:
        """An eighth is wrong: they still describe the edges."""
        wrong = rng.random(len(known.labels)) < 0.125
        return replace(known, labels=np.where(wrong, rng.permutation(known.labels), known.labels))

    on_drift.archive_labels((known for _, known in small_windows(13)[9:]), partly_wrong)
    drifted = on_drift.decides("not now", "drift 4 windows ago: NMI")  # by the labels of these 4
    assert "hidden edges" not in drifted.reason.split(", but")[0]


def test_windows_of_two_graphs_with_one_id_are_both_scored(on_drift: Retrainer) -> None:
    on_drift.archive(3)
    on_drift.archive_of_year(1999, "old", 3)
    on_drift.round()
    scored = on_drift.state.scored
    assert len({window.window for window in scored}) == 3
    assert len({window.name for window in scored}) == 6
    assert len({window.hidden_edges for window in scored}) == 6


def test_scores_are_kept_while_others_are_missing_and_windows_that_take_too_long_have_none(
    on_drift: Retrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_BATCH", 2)
    on_drift.archive(6)
    jobs: list[int] = []

    def ended(job: partial[object], budget: Allowance) -> object:
        jobs.append(len(job.args[1]))
        if len(jobs) == 2:
            raise OverBudget("too slow")
        if len(jobs) == 3:
            raise Overloaded("out of memory")
        return quick(job, budget)

    on_drift.decides("failed", "out of memory", run=ended)
    for _ in range(2):
        few = "4 windows since the last attempt; drift needs more than 8"
        on_drift.decides("not now", few, run=ended)
    assert jobs == [2, 2, 2, 2]


@pytest.mark.parametrize("poison", ["one community", "a tenth"])
def test_poisoned_labels_promote_nothing_worse(retrainer: Retrainer, poison: str) -> None:
    good = retrainer.crown(GOOD)
    retrainer.archive(7)
    rng = np.random.default_rng(0)

    def poisoned(known: Labels) -> Labels:
        is_wrong = rng.random(len(known.labels)) < (1 if poison == "one community" else 0.1)
        wrong = 0 if poison == "one community" else rng.permutation(known.labels)
        return replace(known, labels=np.where(is_wrong, wrong, known.labels))

    retrainer.archive_labels((known for _, known in small_windows(7)), poisoned)
    assert retrainer.decides("kept").labelled == 7
    assert retrainer.champion == good


def test_a_damaged_window_teaches_nothing_stops_nothing_and_does_not_prolong_a_watch(
    retrainer: Retrainer,
) -> None:
    retrainer.crown(JOINS_ALL)
    retrainer.archive(7)
    retrainer.damage(2)
    with capture_logs() as logs:
        retrainer.decides("promoted", run=here)
    left_out = {line["snapshot"] for line in logs if line["event"] == "a window cannot be read"}
    assert left_out == {"small/000002"}
    retrainer.archive(11, since=7)
    retrainer.damage(8)
    retrainer.decides("not now", "3 of 4 windows")
    retrainer.archive(12, since=11)
    retrainer.decides("confirmed")


def test_too_few_windows_that_can_be_read_promote_and_teach_nothing(retrainer: Retrainer) -> None:
    good = retrainer.crown(JOINS_ALL)
    retrainer.archive(7)
    retrainer.damage(0, 1, 3)
    retrainer.decides("kept", "7 of 4 new windows: 3 windows could be read; need 4")
    assert retrainer.champion == good
    for encoder, damaged, few in (
        (SMALL_ENCODER, (), "the encoder needs at least 2 windows with edges, not 1"),
        (RECIPE, (2,), "none of the 3 windows to learn from can be read"),
    ):
        retrainer.set(encoder=encoder)
        retrainer.damage(*damaged)
        retrainer.decides("failed", few, run=here, asked=True)


def test_another_promotion_in_between_wins(retrainer: Retrainer) -> None:
    retrainer.crown(JOINS_ALL)
    retrainer.archive(7)

    def meddle(step: str) -> None:
        if step == "publish":
            retrainer.crown(GOOD)

    retrainer.decides("kept", "became the champion meanwhile", on_step=meddle)
    assert retrainer.champion == PackedModel.of(GOOD).version


@pytest.mark.parametrize("step", ["learn", "publish", "promote", "remember"])
def test_killed_at_a_step_the_next_round_goes_on(retrainer: Retrainer, step: str) -> None:
    before = retrainer.crown(JOINS_ALL)
    retrainer.archive(7)
    retrainer.killed_at(step)
    if step == "remember":
        assert retrainer.champion != before
        retrainer.decides("not now", "watching the new champion")
        return
    assert retrainer.champion == before
    retrainer.decides("promoted")


def test_a_model_is_learned_in_a_process_of_its_own_also_while_the_archive_is_compacted(
    retrainer: Retrainer,
) -> None:
    retrainer.crown(JOINS_ALL)
    retrainer.archive(7, labels=True)
    store, done = open_store(retrainer.settings.archive), list[int]()

    def merge(step: str) -> None:
        if step == "learn":
            done.extend(compaction.windows for compaction in compact_archive(store, NOW.date()))

    promoted = retrainer.decides("promoted", run=run_training, on_step=merge)
    assert done == [7, 7]  # snapshots and labels
    assert promoted.champion.startswith("retrained@")
    assert open_version(retrainer.registry, promoted.champion).model.bp.resolution > 0.01
    card = version_folder(retrainer.registry, promoted.champion).open("card.md").read()
    assert b"| small/000000 | labels | all nodes |" in card


def test_learning_over_its_budget_or_killed_is_ended_and_the_champion_stays(
    retrainer: Retrainer,
) -> None:
    good = retrainer.crown(GOOD)
    retrainer.archive(7)
    retrainer.set(budget=replace(BUDGET, seconds=0.2))
    # On a busy machine, by the clock.
    retrainer.decides("failed", "(--budget-seconds, --budget-memory)", run=run_training)
    assert retrainer.champion == good
    retrainer.decides("not now")  # tried again with the next windows
    with pytest.raises(Overloaded, match="the learning process ended \\(exit status 9\\)"):
        run_training(partial(os._exit, 9), BUDGET)  # type: ignore[arg-type]


def test_a_training_of_the_encoder_that_was_interrupted_goes_on_with_the_same_windows(
    retrainer: Retrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")
    known = SimpleNamespace(parameters=BpParameters(mixing=0.5))
    monkeypatch.setattr(learning, "fit_parameters", lambda *_, **__: known)
    retrainer.set(encoder=SMALL_ENCODER)
    retrainer.crown(GOOD)
    retrainer.archive(7)
    jobs: list[tuple[object, ...]] = []

    def killed_after_training(job: TrainingJob, _budget: Allowance) -> object:
        if isinstance(job, partial) and job.func is learn_job:
            jobs.append(job.args)
        result = job()
        if len(jobs) == 1:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        retrainer.round(run=killed_after_training)
    folder = retrainer.registry.below("retraining/retrained.checkpoints")
    [checkpoint] = folder.files()
    assert checkpoint.endswith("checkpoint.safetensors")
    retrainer.archive(9, since=7)
    begun = retrainer.state
    decided = retrainer.round(run=killed_after_training)
    assert decided.outcome in ("kept", "promoted")
    assert decided.reason.startswith("7 of 4 new windows")
    assert jobs[0] == jobs[1]
    assert folder.files() == []
    retrainer.decides("not now", "2 of 4 new windows", run=killed_after_training)
    retrainer.state = begun
    retrainer.set(encoder=RECIPE)  # which trains none: there is nothing to go on with
    assert retrainer.round().reason.startswith("9 of 4 new windows")
