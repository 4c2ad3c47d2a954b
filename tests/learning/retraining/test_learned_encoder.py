"""The encoder is learned by default, from labels or in hindsight; budgets and the gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_icd.core.arrays import NOBODY
from stream_icd.core.communities import Labels
from stream_icd.core.errors import OverBudget
from stream_icd.core.lineage import Lineage
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.learning.retraining import learn as learning
from stream_icd.learning.retraining.jobs import (
    Job,
    compare_models,
    learn_job,
    score_job,
)
from stream_icd.learning.retraining.learn import LearningTime, learn
from stream_icd.learning.retraining.retrain import retrain
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import read_state
from stream_icd.learning.retraining.windows import Lesson, Sizes, accumulated, lesson
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.registry import digest
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.aliases import current, promote
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, pack, save_model
from stream_icd.registry.versions import publish, read_lineage, version_folder
from stream_icd.sources.generated import planted_snapshots
from stream_icd.streaming.detection.record import Detection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.lessons import small_windows

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BUDGET = Retraining("archive").budget
RECIPE = Recipe(name="retrained", encoder=EDGES)
BP = open_model("lfr").model.bp
GOOD = Model(Recipe(name="good"), BpParameters(mixing=0.5))  # finds small windows' communities


@pytest.fixture(scope="module", autouse=True)
def bp_is_known() -> Iterator[list[bool]]:
    """bp's numbers take no time; yields whether they were to be learned from labels."""
    by_labels = list[bool]()

    def fit(graphs: Sequence[LabelledGraph], *_: object) -> SimpleNamespace:
        by_labels.append(graphs[0].labels is not None)
        return SimpleNamespace(parameters=BP)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "fit_parameters", fit)
        yield by_labels


@pytest.fixture(scope="module")
def windows() -> list[tuple[Snapshot, Labels]]:
    """Seven windows of 800 nodes, more than half of whose edges leave their community."""
    settings = LfrSettings(800, max_degree=50, max_community=80, mixing=0.55)
    stream = (graph for graph, _ in generate_drifting_lfr(1, 7, settings))
    return list(planted_snapshots(stream, "mixed", "test"))


def bare(windows: Sequence[tuple[Snapshot, Labels]]) -> list[Lesson]:
    return [Lesson(replace(snapshot, n_communities=None)) for snapshot, _ in windows]


def labelled(windows: Sequence[tuple[Snapshot, Labels]]) -> list[Lesson]:
    return [lesson(replace(one, n_communities=None), labels) for one, labels in windows]


@pytest.fixture(scope="module")
def learned(windows: list[tuple[Snapshot, Labels]]) -> Any:
    return learn(labelled(windows[:4]), RECIPE)


def test_labels_teach_the_encoder(learned: Any) -> None:
    assert learned.encoder is not None
    assert learned.encoder.state == "learned"
    assert learned.model.trained is not None
    assert [one.by for one in learned.windows] == ["labels"] * 4


def test_without_labels_it_learns_in_hindsight(windows: list[tuple[Snapshot, Labels]]) -> None:
    without = learn([*labelled(windows[:1]), *bare(windows[1:4])], RECIPE)
    assert without.encoder is not None
    assert without.encoder.n_taught == 4
    assert [one.by for one in without.windows] == ["hindsight"] * 4
    assert [one.known for one in without.windows] == ["all nodes", "none", "none", "none"]
    random = [
        replace(one, snapshot=small_windows(1, 0, 0.14, 7)[0][0]) for one in bare(windows[:3])
    ]
    nothing = learn(random, RECIPE)
    assert [one.by for one in nothing.windows] == ["edges"] * 3
    assert nothing.encoder is not None
    assert (nothing.encoder.state, nothing.model.trained) == ("not trained", None)


def test_labels_of_some_nodes_teach_the_encoder_but_not_bp(
    windows: list[tuple[Snapshot, Labels]], bp_is_known: list[bool]
) -> None:
    rng, some = np.random.default_rng(0), []
    for one in labelled(windows[:4]):
        assert one.labels is not None
        known = np.where(rng.random(len(one.labels)) < 0.6, one.labels, NOBODY)
        some.append(replace(one, labels=known.astype(np.int32), known="some nodes"))
    learned = learn(some, RECIPE)
    assert learned.encoder is not None
    assert learned.encoder.n_taught == 4
    assert {(one.by, one.known) for one in learned.windows} == {("labels", "some nodes")}
    assert not bp_is_known[-1]


def test_learning_starts_from_the_champion_and_keeps_its_weights_without_time(
    windows: list[tuple[Snapshot, Labels]], learned: Any
) -> None:
    parent = learned.model
    late = learn(labelled(windows[1:5]), RECIPE, parent=parent, limit=LearningTime(0.0))
    assert late.encoder is not None
    assert (late.encoder.state, late.encoder.stopped) == ("its parent's", True)
    assert digest(late.model.weights) == digest(parent.weights)


def _published(
    windows: Sequence[Snapshot], model: Model, method: str = "auto", memory: str = "auto"
) -> list[np.ndarray]:
    """What a detector publishes for these windows."""
    settings = DetectSettings(memory=memory, method=method, threads=1)
    detector, relay = Detection(VersionedModel("m@0", model), settings), Relay()
    relay = relay if detector.remembers else None
    return [detector.detected(lambda w=one: w, relay).communities.labels for one in windows]


@pytest.mark.parametrize(
    ("method", "states_k"), [("bp", False), ("bp without memory", True), ("icd", True)]
)
def test_the_gate_judges_what_detectors_publish(
    windows: list[tuple[Snapshot, Labels]],
    learned: Any,
    tmp_path: Path,
    method: str,
    *,
    states_k: bool,
) -> None:
    """By the model's own method, with trained weights, memory, and K where the window states it."""
    bp = replace(BP, stay=0.0) if method == "bp without memory" else BP
    model = replace(learned.model, bp=bp, method=method.split()[0])
    windows = windows[:5]
    lessons = [lesson(*window) for window in windows] if states_k else labelled(windows)
    plain = open_model("gn").model
    paired = compare_models(lessons[3:], plain, model, warm_up=lessons[:3])
    snapshots = [one.snapshot for one in lessons]
    for tried, measured in (
        (plain, [both.champion for both in paired]),
        (model, [both.challenger for both in paired]),
    ):
        published = _published(snapshots, tried)
        expected = [nmi(of.labels, found) for of, found in zip(lessons, published, strict=True)]
        assert [one.nmi for one in measured] == pytest.approx(expected[3:])
    archive = Archive(open_store(str(tmp_path / "archive")))
    for one, (_, known) in zip(lessons, windows, strict=True):
        archive.add("snapshots", encode_snapshot(one.snapshot))
        archive.add("labels", encode_labels(known))
    save_model(model, tmp_path / "model")
    past = accumulated(open_store(str(tmp_path / "archive")), NOW)
    to_score = past.windows[3:]
    before = past.lessons(past.before(to_score, 5))
    assert len(before) == 3
    settings = Retraining(str(tmp_path / "archive"))
    of_windows = score_job(settings, past.lessons(to_score), before, str(tmp_path / "model"))
    assert [one.nmi for one in of_windows] == pytest.approx(expected[3:])
    assert [one.hidden_edges for one in of_windows] == pytest.approx(
        [both.challenger.hidden_edges for both in paired]
    )


def test_detectors_that_force_a_method_and_forget_are_judged_so(
    windows: list[tuple[Snapshot, Labels]],
) -> None:
    """Those without memory find each window alone."""
    model = open_model("gn").model
    lessons = [lesson(*window) for window in windows[:3]]
    paired = compare_models(lessons, model, model, method="icd", remember=False)
    published = _published([one.snapshot for one in lessons], model, "icd", "off")
    expected = [nmi(one.labels, found) for one, found in zip(lessons, published, strict=True)]
    assert [both.champion.nmi for both in paired] == pytest.approx(expected)


@pytest.fixture
def registry(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "registry"))


def _archived(windows: Sequence[tuple[Snapshot, Labels]], place: str, *, labels: bool) -> None:
    archive = Archive(open_store(place))
    for snapshot, known in windows:
        archive.add("snapshots", encode_snapshot(replace(snapshot, n_communities=None)))
        if labels:
            archive.add("labels", encode_labels(known))


def _champion(registry: Store, model: Model) -> str:
    packed = pack(model)
    publish(registry, packed, Lineage("test", NOW, "0"))
    promote(registry, packed.version, "test", NOW, by="test", seen=current(registry))
    return packed.version


def test_a_round_learns_the_encoder_and_its_card_says_from_what(
    windows: list[tuple[Snapshot, Labels]], registry: Store, tmp_path: Path
) -> None:
    """A champion that finds one community is worse, so what was learned is promoted."""
    place = str(tmp_path / "archive")
    _archived(windows, place, labels=False)
    joins_all = replace(open_model("gn").model.bp, resolution=0.01)
    _champion(registry, Model(Recipe(name="made-up"), joins_all))
    sizes = Sizes(newest=3, older=0, prove=4, least=3)
    settings = Retraining(place, drift=False, sizes=sizes)
    decided = retrain(registry, settings, NOW, asked=True, run=lambda job, _budget: job())
    assert decided.outcome == "promoted", decided.reason
    data = version_folder(registry, decided.champion)
    card = (data.read("card.md", data.size("card.md")) or b"").decode()
    assert "## The encoder" in card
    assert "| hindsight | none |" in card
    assert "| icd, untrained encoder |" in card
    lineage = read_lineage(registry, decided.champion)
    assert lineage.data is not None
    assert lineage.data.labelled == 0


def test_the_time_of_learning_is_a_share_of_the_budget(
    windows: list[tuple[Snapshot, Labels]], tmp_path: Path
) -> None:
    """So the job ends in time, and hands over what it has: it is not ended with nothing."""
    place = str(tmp_path / "archive")
    _archived(windows[:4], place, labels=True)
    save_model(open_model("gn").model, tmp_path / "parent")
    past = accumulated(open_store(place), NOW)
    settings = Retraining(place, budget=replace(BUDGET, seconds=1e-6))
    lessons = past.lessons(past.windows)
    made = learn_job(settings, lessons, RECIPE, place, str(tmp_path / "parent"))
    assert made.encoder is not None
    assert (made.encoder.state, made.stopped) == ("not trained", True)
    assert "model.safetensors" not in made.model.files


PAPERS = Recipe(
    name="papers",
    encoder={"widths": (64, 32, 16)},
    discriminator_widths=(16, 1),
    schedule={"epochs": 1000, "samples": 1000},
    losses={"rows": 50},
)
"""Takes hours: it fits into no budget of a test."""


@pytest.fixture
def settings(tmp_path: Path) -> Retraining:
    pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")
    return Retraining(
        str(tmp_path / "archive"),
        every_windows=4,
        drift=False,
        sizes=Sizes(newest=2, older=1, prove=4, least=1),
        encoder=PAPERS,
        budget=replace(BUDGET, seconds=0.8),
    )


def _archive_small(settings: Retraining, since: int, until: int) -> None:
    archive = Archive(open_store(settings.archive))
    for snapshot, _ in small_windows(until)[since:]:
        archive.add("snapshots", encode_snapshot(snapshot))


def test_a_schedule_longer_than_the_budget_goes_on_with_the_next_trigger(
    registry: Store, settings: Retraining
) -> None:
    from stream_icd.learning.training.icd.train_encoder import load_checkpoint

    _champion(registry, GOOD)
    _archive_small(settings, 0, 7)
    jobs: list[Job] = []

    def here(job: Job, _budget: Allowance) -> object:
        jobs.append(job)
        return job()

    def epochs() -> int:
        [path] = folder.files()
        job = jobs[0]
        assert isinstance(job, partial)
        kept = load_checkpoint(job.args[2], folder.below(path.rpartition("/")[0]))
        assert kept is not None
        return len(kept.history)

    folder = registry.below(f"retraining/{settings.name}.checkpoints")
    first = retrain(registry, settings, NOW, run=here)
    assert first.outcome == "kept", first.reason
    done = epochs()
    begun = read_state(registry, settings.name).begun
    assert begun is not None
    assert begun.paused
    again = retrain(registry, settings, NOW, run=here)
    assert (again.outcome, again.reason) == ("not now", "0 of 4 new windows")
    _archive_small(settings, 7, 11)
    more = retrain(registry, settings, NOW, run=here)
    assert more.outcome == "kept", more.reason
    assert epochs() > done
    learning = [job.args for job in jobs if isinstance(job, partial) and job.func is learn_job]
    assert learning[0] == learning[1]  # the same windows
    assert retrain(registry, settings, NOW, run=here).reason == "0 of 4 new windows"


def test_the_checkpoint_survives_a_job_that_is_ended_at_its_budget(
    registry: Store, settings: Retraining
) -> None:
    _champion(registry, GOOD)
    _archive_small(settings, 0, 7)
    folder = registry.below(f"retraining/{settings.name}.checkpoints")

    def over(job: Job, _budget: Allowance) -> object:
        job()
        raise OverBudget("learning took more than .8 s of processor time")

    assert retrain(registry, settings, NOW, run=over).outcome == "failed"
    assert len(folder.files()) == 1
    assert retrain(registry, settings, NOW, run=over).reason == "0 of 4 new windows"
    assert len(folder.files()) == 1


def test_weights_that_no_epoch_improved_are_not_called_learned(
    settings: Retraining, windows: list[tuple[Snapshot, Labels]]
) -> None:
    recipe = settings.encoder.changed(optimiser={"learning_rate": 1e9}, schedule={"samples": 3})
    learned = learn(labelled(windows[:3]), recipe.changed(schedule={"epochs": 1}))
    assert learned.encoder is not None
    assert (learned.encoder.state, learned.model.trained) == ("not trained", None)
    assert learned.model.method == "bp"
