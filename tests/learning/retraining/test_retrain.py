"""Rounds of retraining on an archive: what is decided, and what survives being killed."""

import json
import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import (
    BadSettings,
    ModelNotFound,
    OverBudget,
    Overloaded,
    StoreUnwritable,
)
from stream_icd.core.lineage import Lineage
from stream_icd.core.snapshot import Window
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, compact
from stream_icd.learning.retraining import learn as learning
from stream_icd.learning.retraining import retrain as rounds
from stream_icd.learning.retraining.jobs import Job, Made, learn_job, run_job
from stream_icd.learning.retraining.learn import LearnedFrom
from stream_icd.learning.retraining.retrain import Decision, retrain
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import (
    BegunTraining,
    RetrainerState,
    ScoredWindow,
    read_state,
    write_state,
)
from stream_icd.learning.retraining.windows import Sizes
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.aliases import champion, current, history, promote, roll_back
from stream_icd.registry.find import folder_of
from stream_icd.registry.model import PackedModel, pack
from stream_icd.registry.versions import (
    open_version,
    publish,
    read_lineage,
    version_folder,
    versions,
)
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.lessons import small_windows

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BUDGET = Retraining("archive").budget
MINUTE = timedelta(minutes=1)
SIZES = Sizes(newest=2, older=1, prove=4, least=1)
RECIPE = Recipe(name="made-up")
GOOD = pack(Model(RECIPE, BpParameters(mixing=0.5)))
JOINS_ALL = pack(Model(RECIPE, BpParameters(resolution=0.01)))


@pytest.fixture
def registry(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "registry"))


@pytest.fixture
def settings(tmp_path: Path) -> Retraining:
    return Retraining(
        archive=str(tmp_path / "archive"),
        every_windows=4,
        drift=False,
        sizes=SIZES,
        watch=4,
        encoder=RECIPE,  # learns none: that is tested in test_learned_encoder.py
    )


LEARNED = pack(Model(RECIPE.changed(name="other"), BpParameters(mixing=0.5), Model(RECIPE).weights))


def _quick(job: Job, _budget: Allowance) -> object:
    """Run a job in this process; learning takes no time, and has a good result."""
    if not (isinstance(job, partial) and job.func is learn_job):
        return job()
    learned_from = tuple(
        LearnedFrom(window.identity.snapshot_id, "edges" if labels is None else "labels", "none")
        for window, labels in job.args[1]
    )
    return Made(LEARNED, learned_from)


quick_round = partial(retrain, run=_quick)


def _archive(settings: Retraining, until: int, *, since: int = 0, labels: bool = False) -> None:
    archive = Archive(open_store(settings.archive))
    for snapshot, known in small_windows(until)[since:]:
        archive.add("snapshots", encode_snapshot(snapshot))
        if labels:
            archive.add("labels", encode_labels(known))


def _champion(registry: Store, model: PackedModel) -> str:
    publish(registry, model, Lineage("test", NOW, "0"))
    seen = current(registry)
    return promote(registry, model.version, "test", NOW, by="test", seen=seen).champion


def _round(registry: Store, settings: Retraining, *, asked: bool = False) -> Decision:
    return quick_round(registry, settings, NOW, asked=asked)


def test_an_empty_registry_gets_its_first_champion(registry: Store, settings: Retraining) -> None:
    first = _round(registry, settings)
    assert first.outcome == "first champion"
    assert champion(registry).champion == first.champion
    assert first.champion.startswith("default@")
    nothing = _round(registry, settings)
    assert nothing.outcome == "not now"
    assert nothing.reason.startswith(
        f"0 of 4 new windows; there is no archive at {settings.archive}: "
    )


def test_another_program_may_make_the_first_champion(
    registry: Store, settings: Retraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(name: str) -> Store:
        _champion(registry, GOOD)
        return folder_of(name)

    monkeypatch.setattr(rounds, "folder_of", meanwhile)
    first = _round(registry, settings)
    assert (first.outcome, first.champion, first.reason) == ("first champion", GOOD.version, "test")


def test_a_watch_needs_the_previous_champion(registry: Store, settings: Retraining) -> None:
    good = _worse_champion(registry, settings)
    shutil.rmtree(version_folder(registry, good).root)
    with pytest.raises(
        ModelNotFound, match=f"no version '{good}' in .*; it has: {JOINS_ALL.version}"
    ):
        _round(registry, settings)


def test_the_state_of_the_most_windows_is_remembered(registry: Store) -> None:
    scored = ScoredWindow("a graph", "a graph/2026-01-01T00:00:00Z/PT1H", 1 / 3, True, 2 / 3)
    state = RetrainerState(scored=10_000 * (scored,), rolled_back={"a graph": NOW})
    write_state(registry, "retrained", state)
    assert read_state(registry, "retrained") == state


@pytest.mark.parametrize("wrong", [{"most_windows": 10_001}, {"watch": 1_001}])
def test_more_windows_than_are_looked_at_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadSettings, match=" must be from "):
        Retraining("archive", **wrong)  # type: ignore[arg-type]


def test_a_misspelt_graph_is_in_the_reason(registry: Store, settings: Retraining) -> None:
    _archive(settings, 1)
    (graph,) = {snapshot.graph for snapshot, _ in small_windows(1)}
    misspelt = replace(settings, graph=f"{graph}x")
    _round(registry, misspelt)  # the first champion
    for asked in (False, True):
        reason = _round(registry, misspelt, asked=asked).reason
        assert reason.endswith(f"; it holds {graph}; did you mean {graph}?")


def test_a_better_model_is_promoted_with_its_lineage(registry: Store, settings: Retraining) -> None:
    worse = _champion(registry, JOINS_ALL)
    _archive(settings, 7, labels=True)
    promoted = _round(registry, settings)
    assert promoted.outcome == "promoted", promoted
    assert champion(registry).champion == promoted.champion == promoted.challenger
    assert champion(registry).previous == worse
    lineage = read_lineage(registry, promoted.champion)
    assert lineage.parent == worse
    assert lineage.data is not None
    assert (lineage.data.windows, lineage.data.labelled) == (3, 3)
    assert lineage.gate is not None
    assert lineage.gate.start >= lineage.data.end
    assert lineage.gate.passed
    assert [figure.measure for figure in lineage.gate.figures][:2] == [
        "hidden edges, bits an edge",
        "NMI, %",
    ]
    assert "7 of 4 new windows" in champion(registry).reason


def test_an_equal_model_is_not_promoted(registry: Store, settings: Retraining) -> None:
    good = _champion(registry, GOOD)
    _archive(settings, 7)
    kept = _round(registry, settings)
    assert kept.outcome == "kept"
    assert "not clearly better" in kept.reason
    assert champion(registry).champion == good
    assert versions(registry) == [good]  # those that lose leave nothing
    again = _round(registry, settings)
    assert (again.outcome, again.reason) == ("not now", "0 of 4 new windows")


def test_without_enough_windows_it_says_so(registry: Store, settings: Retraining) -> None:
    _champion(registry, GOOD)
    _archive(settings, 4)
    few = _round(registry, settings)
    assert few.outcome == "not now"
    assert few.reason == "4 of 4 new windows, but there are 4 of 5 windows"
    assert "asked by command" in _round(registry, settings, asked=True).reason


def test_the_models_are_compared_on_windows_that_neither_learned_from(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    assert _round(registry, settings).outcome == "promoted"
    settings = replace(settings, watch=1)
    _archive(settings, 8, since=7)
    assert _round(registry, settings).outcome == "confirmed"
    asked = _round(registry, settings, asked=True)
    assert asked.outcome == "kept"  # 5 windows since: those of the last gate prove again


def _of_year(year: int, graph: str, count: int, settings: Retraining) -> None:
    """Archive windows of another graph, whose minutes are in this year."""
    archive = Archive(open_store(settings.archive))
    start = datetime(year, 1, 1, tzinfo=UTC)
    for number, (snapshot, _) in enumerate(small_windows(count, seed=year)):
        window = Window(start + number * MINUTE, start + (number + 1) * MINUTE)
        archive.add("snapshots", encode_snapshot(replace(snapshot, graph=graph, window=window)))


def test_a_window_far_in_the_future_is_not_used_and_named(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, GOOD)
    _archive(settings, 3)
    _of_year(2099, "small", 1, settings)
    few = _round(registry, settings)
    assert few.reason.startswith("3 of 4 new windows; 1 windows are not used, since they end more")
    assert "than 31 days ahead of the clock, such as" in few.reason
    assert few.ahead == 1
    _archive(settings, 7, since=3)
    assert _round(registry, settings).outcome == "kept"
    assert "0 of 4 new windows; 1 windows" in _round(registry, settings).reason


def test_an_attempt_by_a_clock_far_ahead_does_not_keep_others_off(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, GOOD)
    _archive(settings, 7)
    settings = replace(settings, every_windows=None, every=timedelta(days=1))
    outcomes = [
        quick_round(registry, settings, NOW + timedelta(days=days)).outcome
        for days in (3650, 0, 0.9, 1)
    ]
    assert outcomes == ["kept", "not now", "not now", "kept"]


def test_a_graph_of_the_past_counts_beside_one_of_today(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    assert _round(registry, settings).outcome == "promoted"
    _of_year(1999, "old", 3, settings)
    assert _round(registry, settings).reason.endswith("3 of 4 windows since the swap")
    _of_year(1999, "old", 4, settings)
    assert _round(registry, settings).outcome == "confirmed"
    asked = _round(registry, settings, asked=True)
    assert asked.outcome == "kept"
    lineage = read_lineage(registry, champion(registry).champion)
    assert lineage.data is not None
    assert list(lineage.data.until()) == ["small"]
    _of_year(1999, "older", 3, settings)
    assert _round(registry, settings).reason == "3 of 4 new windows"


def test_a_graph_of_the_past_counts_after_a_rollback(registry: Store, settings: Retraining) -> None:
    _champion(registry, JOINS_ALL)
    _champion(registry, GOOD)
    _archive(settings, 7)
    _round(registry, settings)
    roll_back(registry, "by hand", NOW, by="test", seen=champion(registry))
    assert "0 of 4 windows that the" in _round(registry, settings, asked=True).reason
    _of_year(1999, "old", 4, settings)
    proved = _round(registry, settings, asked=True)
    assert proved.outcome == "promoted", proved


def test_a_rollback_during_the_watch_is_not_confirmed(
    registry: Store, settings: Retraining
) -> None:
    _archive(settings, 3)
    before = _champion(registry, JOINS_ALL)
    _champion(registry, GOOD)
    _round(registry, settings)
    _archive(settings, 7, since=3)

    def rolled_back_meanwhile(job: Job, budget: Allowance) -> object:
        roll_back(registry, "by hand", NOW, by="test", seen=champion(registry))
        return _quick(job, budget)

    watched = retrain(registry, settings, NOW, run=rolled_back_meanwhile)
    assert (watched.outcome, watched.generation) == ("not now", 2)
    assert watched.reason == f"{before} became the champion meanwhile"
    assert _round(registry, settings).outcome == "not now"


def test_while_the_archive_is_away_nothing_is_noticed_or_forgotten(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    marks = {"small": NOW}
    begun = RetrainerState(
        generation=1, attempted=marks, begun=BegunTraining(marks, "long ago", None)
    )
    write_state(registry, settings.name, begun)
    archive = Path(settings.archive)
    away = archive.rename(archive.parent / "away")
    _champion(registry, GOOD)
    assert _round(registry, settings).reason.startswith(
        "the windows of earlier rounds are gone; there"
    )
    assert read_state(registry, settings.name) == begun
    away.rename(archive)
    assert _round(registry, settings).reason.endswith("0 of 4 windows since the swap")


def test_a_rollback_with_the_number_of_a_deleted_promotion_is_noticed(
    registry: Store, settings: Retraining
) -> None:
    _archive(settings, 3)
    for model in (JOINS_ALL, GOOD, LEARNED):
        _champion(registry, model)
    assert "watching the new champion" in _round(registry, settings).reason
    registry.delete("aliases/00000003.json")
    roll_back(registry, "by hand", NOW, by="test", seen=champion(registry))
    assert champion(registry).generation == 3
    assert "watching" not in _round(registry, settings).reason
    assert read_state(registry, settings.name).rolled_back is not None


def test_scores_of_a_champion_that_was_deleted_are_not_those_of_the_first_one(
    registry: Store, settings: Retraining
) -> None:
    """As where aliases are restored from a backup."""
    settings = replace(settings, every_windows=None, drift=True)
    for model in (JOINS_ALL, GOOD):
        _champion(registry, model)
    write_state(registry, settings.name, RetrainerState(2, champion(registry).id))
    _archive(settings, 3)
    _round(registry, settings)
    before = read_state(registry, settings.name).scored
    registry.delete("aliases/00000002.json")
    _round(registry, settings)
    after = read_state(registry, settings.name).scored
    assert len(before) == len(after) == 3
    assert before != after


def _worse_champion(registry: Store, settings: Retraining) -> str:
    """Promote a worse model by hand, and archive what shows it; return the version before."""
    _archive(settings, 3)
    good = _champion(registry, GOOD)
    _champion(registry, JOINS_ALL)
    assert _round(registry, settings).reason == (
        "watching the new champion: 0 of 4 windows since the swap"
    )
    _archive(settings, 7, since=3)
    return good


def test_a_worse_champion_is_rolled_back_by_itself(registry: Store, settings: Retraining) -> None:
    good = _worse_champion(registry, settings)
    back = _round(registry, settings)
    assert back.outcome == "rolled back"
    assert "-" in back.reason
    assert champion(registry).champion == good == back.champion
    assert _round(registry, settings).outcome == "not now"


def test_after_a_rollback_only_newer_windows_prove_a_model(
    registry: Store, settings: Retraining
) -> None:
    before = _champion(registry, JOINS_ALL)
    _champion(registry, GOOD)
    _archive(settings, 7)
    _round(registry, settings)
    roll_back(registry, "by hand", NOW, by="test", seen=champion(registry))
    registry.delete("retraining/retrained.json")  # also a retrainer that has forgotten all knows it
    same = _round(registry, settings, asked=True)  # what it learns is far better on these windows
    assert same.outcome == "not now"
    assert "0 of 4 windows that the champion did not learn from" in same.reason
    assert "they count from the last rollback on" in same.reason
    assert champion(registry).champion == before
    _archive(settings, 11, since=7)
    assert _round(registry, settings, asked=True).outcome == "promoted"


@pytest.mark.parametrize("step", ["roll back", "remember"])
def test_killed_at_a_rollback_the_next_round_goes_on(
    registry: Store, settings: Retraining, step: str
) -> None:
    good = _worse_champion(registry, settings)
    _kill_at(step, registry, settings)
    is_back = champion(registry).champion == good
    assert is_back == (step == "remember")
    assert _round(registry, settings).outcome == ("not now" if is_back else "rolled back")
    assert _round(registry, settings, asked=True).outcome == "not now"  # from the same windows
    assert champion(registry).champion == good
    assert len(history(registry)) == 3


def test_a_good_champion_is_confirmed_and_windows_are_compared_once_while_no_more_come(
    registry: Store, settings: Retraining
) -> None:
    _archive(settings, 3)
    _champion(registry, JOINS_ALL)
    good = _champion(registry, GOOD)
    _round(registry, settings)
    jobs: list[Job] = []

    def counted(job: Job, budget: Allowance) -> object:
        jobs.append(job)
        return _quick(job, budget)

    for since, until in ((3, 5), (5, 6)):
        _archive(settings, until, since=since)
        one, other = (retrain(registry, settings, NOW, run=counted).reason for _ in range(2))
        assert one == other
        assert f"{until - 3} of 4 windows" in one
    assert len(jobs) == 2
    _archive(settings, 7, since=6)
    assert _round(registry, settings).outcome == "confirmed"
    assert champion(registry).champion == good


def test_drift_asks_for_a_new_model(registry: Store, settings: Retraining) -> None:
    settings = replace(settings, every_windows=None, drift=True)
    _champion(registry, GOOD)
    _archive(settings, 10)
    assert "no drift in 10 windows" in _round(registry, settings).reason
    archive = Archive(open_store(settings.archive))
    later = small_windows(16, p_in=0.95)[10:]
    for snapshot, _ in later[:2]:
        archive.add("snapshots", encode_snapshot(snapshot))
    waiting = _round(registry, settings)
    assert "drift 2 windows ago" in waiting.reason
    assert "2 of 5 windows after the change" in waiting.reason
    for snapshot, _ in later[2:]:
        archive.add("snapshots", encode_snapshot(snapshot))
    assert _round(registry, settings).outcome in ("kept", "promoted")


def _add_partly_wrong_labels(settings: Retraining, since: int, until: int) -> None:
    """Labels of which an eighth is wrong: they still describe the edges."""
    archive, rng = Archive(open_store(settings.archive)), np.random.default_rng(0)
    for _, known in small_windows(until)[since:]:
        wrong = rng.random(len(known.labels)) < 0.125
        labels = np.where(wrong, rng.permutation(known.labels), known.labels)
        archive.add("labels", encode_labels(replace(known, labels=labels)))


def test_windows_of_two_graphs_with_one_id_are_both_scored(
    registry: Store, settings: Retraining
) -> None:
    settings = replace(settings, every_windows=None, drift=True)
    _champion(registry, GOOD)
    _archive(settings, 3)
    _of_year(1999, "old", 3, settings)
    _round(registry, settings)
    scored = read_state(registry, settings.name).scored
    assert len({one.window for one in scored}) == 3
    assert len({(one.graph, one.window) for one in scored}) == 6
    assert len({one.hidden_edges for one in scored}) == 6


def test_scores_in_a_state_of_an_earlier_version_are_read(registry: Store) -> None:
    scored = {"graph": "g", "window": "w", "evidence": 0.5}
    registry.put(
        "retraining/r.json", pa.py_buffer(json.dumps({"format": 2, "scored": [scored]}).encode())
    )
    assert read_state(registry, "r") == RetrainerState(scored=(ScoredWindow("g", "w", 0.5),))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"format": 99}', "r.json has format 99 and this version reads up to"),
        (b"{half", "r.json"),
    ],
)
def test_a_state_that_cannot_be_read_is_made_anew_and_logged(
    registry: Store, content: bytes, reason: str
) -> None:
    registry.put("retraining/r.json", pa.py_buffer(content))
    with capture_logs() as logs:
        assert read_state(registry, "r") == RetrainerState()
    (line,) = logs
    assert reason in line["reason"]


def test_drift_of_nmi_asks_for_a_new_model_also_when_labels_come_late(
    registry: Store, settings: Retraining
) -> None:
    settings = replace(settings, every_windows=None, drift=True)
    _champion(registry, GOOD)
    _archive(settings, 9, labels=True)
    _archive(settings, 13, since=9)
    quiet = _round(registry, settings).reason
    assert "no drift in 13 windows (hidden edges about" in quiet
    assert "no drift in 9 windows (NMI about" in quiet
    _add_partly_wrong_labels(settings, 9, 13)
    drifted = _round(registry, settings).reason
    assert "NMI" in drifted
    assert "drift 4 windows ago" in drifted  # by the labels of these 4
    assert "hidden edges" not in drifted.split(", but")[0]


def test_scores_are_kept_while_others_are_still_missing(
    registry: Store, settings: Retraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_BATCH", 2)
    settings = replace(settings, every_windows=None, drift=True)
    _champion(registry, GOOD)
    _archive(settings, 6)
    asked: list[int] = []

    def killed_at_the_third(job: partial[object], budget: Allowance) -> object:
        asked.append(len(job.args[1]))
        if len(asked) == 3:
            raise Overloaded("out of memory")
        return _quick(job, budget)

    first = retrain(registry, settings, NOW, run=killed_at_the_third)
    assert (first.outcome, first.reason) == ("failed", "out of memory")
    again = retrain(registry, settings, NOW, run=killed_at_the_third)
    assert again.reason == "6 windows since the last attempt; drift needs more than 8"
    assert asked == [2, 2, 2, 2]


def test_windows_that_take_too_long_have_no_score_and_are_not_tried_again(
    registry: Store, settings: Retraining
) -> None:
    settings = replace(settings, every_windows=None, drift=True)
    _champion(registry, GOOD)
    _archive(settings, 6)
    jobs: list[Job] = []

    def too_slow(job: Job, _budget: Allowance) -> object:
        jobs.append(job)
        raise OverBudget("too slow")

    for _ in range(2):
        said = retrain(registry, settings, NOW, run=too_slow)
        assert (said.outcome, said.reason) == (
            "not now",
            "0 windows since the last attempt; drift needs more than 8",
        )
    assert len(jobs) == 1


def test_a_watch_that_cannot_be_kept_is_tried_again(registry: Store, settings: Retraining) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 3)
    _round(registry, settings)
    good = _champion(registry, GOOD)
    assert "watching" in _round(registry, settings).reason
    _archive(settings, 7, since=3)

    def killed(_job: Job, _budget: Allowance) -> object:
        raise Overloaded("out of memory")

    failed = retrain(registry, settings, NOW, run=killed)
    assert (failed.outcome, failed.champion) == ("failed", good)
    assert _round(registry, settings).outcome == "confirmed"


def test_labels_for_windows_that_never_were_are_counted(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, GOOD)
    _archive(settings, 3)
    archive = Archive(open_store(settings.archive))
    for _, known in small_windows(5)[2:]:
        archive.add("labels", encode_labels(known))
    decided = _round(registry, settings)
    assert (decided.windows, decided.labelled, decided.strayed) == (3, 1, 2)


@pytest.mark.parametrize("poison", ["one community", "unknown nodes", "a tenth"])
def test_poisoned_labels_promote_nothing_worse(
    registry: Store, settings: Retraining, poison: str
) -> None:
    good = _champion(registry, GOOD)
    _archive(settings, 7)
    archive = Archive(open_store(settings.archive))
    rng = np.random.default_rng(0)
    for _, known in small_windows(7):
        labels = np.zeros_like(known.labels)
        if poison == "a tenth":
            flipped = rng.random(len(labels)) < 0.1
            labels = np.where(flipped, rng.permutation(known.labels), known.labels)
        elif poison != "one community":
            labels = rng.permutation(known.labels)
        nodes = known.nodes
        if poison == "unknown nodes":
            nodes = type(nodes).from_pandas(nodes.to_numpy() + 10_000)
        archive.add("labels", encode_labels(replace(known, nodes=nodes, labels=labels)))
    decided = _round(registry, settings)
    assert decided.outcome == "kept"
    assert decided.labelled == 7
    assert champion(registry).champion == good


def test_a_damaged_window_teaches_nothing_and_stops_nothing(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    _damage(settings, 2)
    with capture_logs() as logs:
        decided = retrain(registry, settings, NOW, run=lambda job, _budget: job())
    assert decided.outcome == "promoted", decided
    left_out = {line["snapshot"] for line in logs if line["event"] == "a window cannot be read"}
    assert left_out == {"small/000002"}


def _damage(settings: Retraining, *windows: int) -> None:
    for window in windows:
        [file] = Path(settings.archive).rglob(f"w-{window:06}-*.parquet")
        content = file.read_bytes()
        file.write_bytes(content[:700] + bytes(400) + content[1100:])  # edges; its footer is whole


def test_too_few_windows_that_can_be_read_promote_nothing(
    registry: Store, settings: Retraining
) -> None:
    good = _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    _damage(settings, 3)
    kept = _round(registry, settings)
    assert kept.reason == "7 of 4 new windows: 3 windows could be read; need 4"
    assert (kept.outcome, champion(registry).champion) == ("kept", good)


def test_learning_from_windows_that_cannot_be_read_fails(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    encoder = replace(settings, encoder=SMALL_ENCODER)
    _damage(settings, 0, 1)
    failed = retrain(registry, encoder, NOW, run=lambda job, _budget: job())
    assert failed.outcome == "failed"
    assert failed.reason.endswith("the encoder needs at least 2 windows with edges, not 1")
    _damage(settings, 2)
    failed = retrain(registry, settings, NOW, asked=True, run=lambda job, _budget: job())
    assert failed.outcome == "failed"
    assert failed.reason.endswith("none of the 3 windows to learn from can be read")


def test_a_damaged_window_does_not_prolong_a_watch(registry: Store, settings: Retraining) -> None:
    _worse_champion(registry, settings)
    _damage(settings, 3)
    assert "3 of 4 windows" in _round(registry, settings).reason
    _archive(settings, 8, since=7)
    assert _round(registry, settings).outcome == "rolled back"


def test_another_promotion_in_between_wins(registry: Store, settings: Retraining) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7)

    def meddle(step: str) -> None:
        if step == "publish":
            _champion(registry, GOOD)

    decided = quick_round(registry, settings, NOW, on_step=meddle)
    assert decided.outcome == "kept"
    assert "became the champion meanwhile" in decided.reason
    assert champion(registry).champion == GOOD.version


def _killed_at(step: str, registry: str, settings: Retraining) -> None:
    def die(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    quick_round(open_store(registry), settings, NOW, on_step=die)


def _kill_at(step: str, registry: Store, settings: Retraining) -> None:
    """Make a round in a process that is killed when it begins this step."""
    process = multiprocessing.get_context("fork").Process(
        target=_killed_at, args=(step, registry.uri, settings)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["learn", "publish", "promote", "remember"])
def test_killed_at_a_step_the_next_round_goes_on(
    registry: Store, settings: Retraining, step: str
) -> None:
    before = _champion(registry, JOINS_ALL)
    _archive(settings, 7)
    _kill_at(step, registry, settings)
    if step == "remember":
        assert champion(registry).champion != before
        assert "watching the new champion" in _round(registry, settings).reason
        return
    assert champion(registry).champion == before
    assert _round(registry, settings).outcome == "promoted"


def test_a_full_registry_keeps_the_champion_and_the_next_round_goes_on(
    registry: Store, settings: Retraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _champion(registry, JOINS_ALL)
    _archive(settings, 7)

    def full(*_: object) -> None:
        raise StoreUnwritable("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(rounds, "publish", full)
        with pytest.raises(StoreUnwritable):
            _round(registry, settings)
    assert champion(registry).champion == before
    assert _round(registry, settings).outcome == "promoted"


def test_an_archive_that_is_compacted_meanwhile_loses_nothing(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7, labels=True)
    store, done = open_store(settings.archive), list[int]()

    def merge(step: str) -> None:
        if step == "learn":
            done.extend(compaction.windows for compaction in compact(store, NOW.date()))

    assert quick_round(registry, settings, NOW, on_step=merge).outcome == "promoted"
    assert done == [7, 7]  # snapshots and labels


def test_a_model_is_learned_in_a_process_of_its_own(registry: Store, settings: Retraining) -> None:
    _champion(registry, JOINS_ALL)
    _archive(settings, 7, labels=True)
    promoted = retrain(registry, settings, NOW)
    assert promoted.outcome == "promoted"
    assert promoted.champion.startswith("retrained@")
    model = open_version(registry, promoted.champion).model
    assert model.bp.resolution > 0.01
    data = version_folder(registry, promoted.champion)
    assert b"| small/000000 | labels | all nodes |" in (
        data.read("card.md", data.size("card.md")) or b""
    )


def test_learning_over_its_budget_is_ended_and_the_champion_stays(
    registry: Store, settings: Retraining
) -> None:
    good = _champion(registry, GOOD)
    _archive(settings, 7)
    failed = retrain(registry, replace(settings, budget=replace(BUDGET, seconds=0.2)), NOW)
    assert failed.outcome == "failed"
    assert "(--budget-seconds, --budget-memory)" in failed.reason  # on a busy machine, by the clock
    assert champion(registry).champion == good
    assert _round(registry, settings).outcome == "not now"  # tried again with the next windows


def test_a_learning_process_that_is_killed_is_an_error_of_ours() -> None:
    with pytest.raises(Overloaded, match="the learning process ended \\(exit status 9\\)"):
        run_job(partial(os._exit, 9), BUDGET)  # type: ignore[arg-type]


SMALL_ENCODER = Recipe(
    name="small",
    encoder={"widths": (64, 32, 16)},
    discriminator_widths=(16, 1),
    schedule={"epochs": 2, "samples": 2},
    losses={"rows": 50},
)


def test_a_training_of_the_encoder_that_was_interrupted_goes_on_with_the_same_windows(
    registry: Store, settings: Retraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")
    from stream_icd.learning.training.icd.train_encoder import CHECKPOINT_FILE

    known = SimpleNamespace(parameters=BpParameters(mixing=0.5))
    monkeypatch.setattr(learning, "fit_parameters", lambda *_, **__: known)
    settings = replace(settings, encoder=SMALL_ENCODER)
    _champion(registry, GOOD)
    _archive(settings, 7)
    jobs: list[tuple[object, ...]] = []

    def killed_after_training(job: Job, _budget: Allowance) -> object:
        if isinstance(job, partial) and job.func is learn_job:
            jobs.append(job.args)
        result = job()
        if len(jobs) == 1:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        retrain(registry, settings, NOW, run=killed_after_training)
    folder = registry.below("retraining/retrained.checkpoints")
    [checkpoint] = folder.files()
    _archive(settings, 9, since=7)
    decided = retrain(registry, settings, NOW, run=killed_after_training)
    assert decided.outcome in ("kept", "promoted")
    assert decided.reason.startswith("7 of 4 new windows")
    assert jobs[0] == jobs[1]
    assert checkpoint.endswith(CHECKPOINT_FILE)
    assert folder.files() == []
    after = retrain(registry, settings, NOW, run=killed_after_training)
    assert after.reason.startswith("2 of 4 new windows")


def test_without_an_encoder_to_train_an_interrupted_training_is_forgotten(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, GOOD)
    _archive(settings, 7)
    state = RetrainerState(generation=1, begun=BegunTraining({}, "long ago", None))
    write_state(registry, settings.name, state)
    assert _round(registry, settings).reason.startswith("7 of 4 new windows")
