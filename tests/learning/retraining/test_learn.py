"""What windows teach bp and the encoder, within a budget; and how two models are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_icd.core.arrays import NOBODY
from stream_icd.core.communities import Labels
from stream_icd.core.errors import OverBudget
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.learning.retraining import learn as learning
from stream_icd.learning.retraining.gate import compare_models, score_job
from stream_icd.learning.retraining.learn import TrainingJob, learn, learn_job
from stream_icd.learning.retraining.retrain import retrain
from stream_icd.learning.retraining.settings import Retraining, Sizes
from stream_icd.learning.retraining.state import RetrainerState
from stream_icd.learning.retraining.windows import Accumulated, Lesson
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.registry.versions import read_lineage, version_folder
from stream_icd.sources.generated import planted_snapshots
from stream_icd.streaming.detection.record import Detection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import Relay
from tests.testbed.lessons import NOW, SMALL_ENCODER, add_to_archive, make_champion, small_windows

BUDGET = Retraining("archive").budget
RECIPE = Recipe(name="retrained", encoder=EDGES)
BP = open_model("lfr").model.bp
SMALL = [Lesson.of(*window) for window in small_windows(6)]
# On small windows, the first finds the communities, and the second none.
GOOD, JOINS_ALL = (
    Model(Recipe(name="small"), BpParameters(**given))  # type: ignore[arg-type]
    for given in ({"mixing": 0.5}, {"resolution": 0.01})
)
Windows = list[tuple[Snapshot, Labels]]


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
def windows() -> Windows:
    """Seven windows of 800 nodes, more than half of whose edges leave their community."""
    settings = LfrSettings(800, max_degree=50, max_community=80, mixing=0.55)
    stream = (graph for graph, _ in generate_drifting_lfr(1, 7, settings))
    return list(planted_snapshots(stream, "mixed", "test"))


def bare(windows: Windows) -> list[Lesson]:
    return [Lesson(replace(snapshot, n_communities=None)) for snapshot, _ in windows]


def labelled(windows: Windows) -> list[Lesson]:
    return [Lesson.of(replace(one, n_communities=None), labels) for one, labels in windows]


def taught_by(learned: Any) -> list[str]:
    return [window.by for window in learned.windows]


@pytest.fixture(scope="module")
def learned(windows: Windows) -> Any:
    return learn(labelled(windows[:4]), RECIPE)


def here(job: TrainingJob, _budget: Allowance) -> object:
    return job()


def test_learning_from_labels_suits_detectors_that_are_not_given_k(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With K given, low resolutions are as good as any other here, and without K they are not."""
    monkeypatch.setattr(learning, "fit_parameters", fit_parameters)
    rng = np.random.default_rng(3)
    graphs = (generate_gn(rng, 400, 40, 0.8) for _ in range(2))
    lessons = [Lesson.of(*window) for window in planted_snapshots(graphs, "many", "test")]
    model, windows, _ = learn(lessons, GOOD.recipe)
    assert {one.by for one in windows} == {"labels"}
    assert lessons[0].labels is not None
    found = find_communities(lessons[0].snapshot.adjacency(), model.bp)
    assert nmi(lessons[0].labels, found) > 0.99


def test_labels_teach_bp_if_most_windows_have_them() -> None:
    without = Lesson(SMALL[0].snapshot)
    assert taught_by(learn([without, *SMALL[1:3]], GOOD.recipe)) == ["labels"] * 2
    learned = learn([SMALL[0], without], GOOD.recipe)
    assert taught_by(learned) == ["edges"] * 2
    assert [window.window for window in learned.windows] == [without.snapshot.id] * 2
    assert learned.windows[0].known == "all nodes"


def test_labels_teach_the_encoder_or_without_them_hindsight(windows: Windows, learned: Any) -> None:
    assert learned.encoder.state == "learned"
    assert learned.model.trained is not None
    assert taught_by(learned) == ["labels"] * 4
    without: Any = learn([*labelled(windows[:1]), *bare(windows[1:4])], RECIPE)
    assert without.encoder.n_taught == 4
    assert taught_by(without) == ["hindsight"] * 4
    assert [one.known for one in without.windows] == ["all nodes", "none", "none", "none"]
    random = small_windows(1, 0, 0.14, 7)[0][0]
    nothing: Any = learn([Lesson(random)] * 3, RECIPE)
    assert taught_by(nothing) == ["edges"] * 3
    assert (nothing.encoder.state, nothing.model.trained) == ("not trained", None)


def test_labels_of_some_nodes_teach_the_encoder_but_not_bp(
    windows: Windows, bp_is_known: list[bool]
) -> None:
    rng, some = np.random.default_rng(0), []
    for snapshot, labels in windows[:4]:
        known = np.where(rng.random(len(labels.labels)) < 0.6, labels.labels, NOBODY)
        some.append(Lesson(snapshot, known.astype(np.int32), known="some nodes"))
    learned: Any = learn(some, RECIPE)
    assert learned.encoder.n_taught == 4
    assert {(one.by, one.known) for one in learned.windows} == {("labels", "some nodes")}
    assert not bp_is_known[-1]


def test_learning_starts_from_the_champion_and_keeps_its_weights_without_time(
    windows: Windows, learned: Any, tmp_path: Path
) -> None:
    """The time is a share of the budget: the job hands over what it has before it is ended."""
    place, parent = str(tmp_path / "archive"), str(tmp_path / "parent")
    add_to_archive(place, windows[1:5], labels=True)
    save_model(learned.model, parent)
    past = Accumulated.look_up(Archive(open_store(place)), NOW)
    settings = Retraining(place, budget=replace(BUDGET, seconds=1e-6))
    late: Any = learn_job(settings, past.lessons(past.windows), RECIPE, place, parent)
    assert (late.encoder.state, late.stopped) == ("its parent's", True)
    weights = late.model.files["model.safetensors"]
    assert weights == (tmp_path / "parent" / "model.safetensors").read_bytes()


def test_the_better_model_has_a_better_score_on_hidden_edges_and_nmi() -> None:
    ticks = count()
    paired = compare_models(SMALL, JOINS_ALL, GOOD, cpu_clock=lambda: float(next(ticks)))
    assert len(paired) == len(SMALL)
    for one in paired:
        assert one.champion.hidden_edges == pytest.approx(0)
        assert one.challenger.hidden_edges > 0.3
        assert one.champion.nmi == pytest.approx(0)
        assert (one.challenger.nmi or 0) > 0.95
        assert one.champion.seconds == 1.0
    assert paired[0].challenger.churn is None
    assert [one.champion.churn for one in paired[1:]] == [0.0] * 5


def test_a_model_is_equal_to_itself_and_compared_by_the_method_that_it_is_for() -> None:
    """The weights of the encoder matter to icd only; labels of some nodes are enough."""
    small = Recipe(name="a", encoder={"widths": (32, 8)}, discriminator_widths=(8, 1))
    models = [Model(recipe, GOOD.bp) for recipe in (small, small.changed(seed=5))]
    snapshot, labels = small_windows(1)[0]
    some = Lesson.of(snapshot, replace(labels, nodes=labels.nodes[:99], labels=labels.labels[:99]))
    for method in ("auto", "icd"):
        [one] = compare_models([some], *models, cpu_clock=lambda: 0.0, method=method)
        assert (one.champion == one.challenger) == (method == "auto")
        assert one.champion.nmi is not None


def published(
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
    windows: Windows, learned: Any, tmp_path: Path, method: str, *, states_k: bool
) -> None:
    """By the model's own method, with trained weights, memory, and K where the window states it."""
    bp = replace(BP, stay=0.0) if method == "bp without memory" else BP
    model = replace(learned.model, bp=bp, method=method.split()[0])
    windows = windows[:5]
    lessons = [Lesson.of(*window) for window in windows] if states_k else labelled(windows)
    plain = open_model("gn").model
    paired = compare_models(lessons[3:], plain, model, warm_up=lessons[:3])
    snapshots = [one.snapshot for one in lessons]
    for tried, measured in (
        (plain, [both.champion for both in paired]),
        (model, [both.challenger for both in paired]),
    ):
        found = published(snapshots, tried)
        expected = [nmi(of.labels, labels) for of, labels in zip(lessons, found, strict=True)]
        assert [one.nmi for one in measured] == pytest.approx(expected[3:])
    place = str(tmp_path / "archive")
    archived = [(one, known) for one, (_, known) in zip(snapshots, windows, strict=True)]
    add_to_archive(place, archived, labels=True)
    save_model(model, tmp_path / "model")
    past = Accumulated.look_up(Archive(open_store(place)), NOW)
    to_score = past.windows[3:]
    before = past.lessons(past.before(to_score, 5))
    assert len(before) == 3
    scored = score_job(Retraining(place), past.lessons(to_score), before, str(tmp_path / "model"))
    assert [one.nmi for one in scored] == pytest.approx(expected[3:])
    hidden_edges = [both.challenger.hidden_edges for both in paired]
    assert [one.hidden_edges for one in scored] == pytest.approx(hidden_edges)


def test_detectors_that_force_a_method_and_forget_are_judged_so(windows: Windows) -> None:
    """Those without memory find each window alone."""
    model = open_model("gn").model
    lessons = [Lesson.of(*window) for window in windows[:3]]
    paired = compare_models(lessons, model, model, method="icd", remember=False)
    found = published([one.snapshot for one in lessons], model, "icd", "off")
    expected = [nmi(one.labels, labels) for one, labels in zip(lessons, found, strict=True)]
    assert [both.champion.nmi for both in paired] == pytest.approx(expected)


@pytest.fixture
def registry(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "registry"))


def test_a_round_learns_the_encoder_and_its_card_says_from_what(
    windows: Windows, registry: Store, tmp_path: Path
) -> None:
    """A champion that finds one community is worse, so what was learned is promoted."""
    place = str(tmp_path / "archive")
    without_k = ((replace(one, n_communities=None), known) for one, known in windows)
    add_to_archive(place, without_k)
    joins_all = replace(open_model("gn").model.bp, resolution=0.01)
    make_champion(registry, Model(Recipe(name="made-up"), joins_all))
    sizes = Sizes(newest=3, older=0, prove=4, least=3)
    settings = Retraining(place, drift=False, sizes=sizes)
    decided = retrain(registry, settings, NOW, asked=True, run=here)
    assert decided.outcome == "promoted", decided.reason
    card = version_folder(registry, decided.champion).open("card.md").read().decode()
    for words in ("## The encoder", "| hindsight | none |", "| icd, untrained encoder |"):
        assert words in card
    data = read_lineage(registry, decided.champion).data
    assert data.labelled == 0


PAPERS = SMALL_ENCODER.changed(schedule={"epochs": 1000, "samples": 1000})
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


def test_a_schedule_longer_than_the_budget_goes_on_with_the_next_trigger(
    registry: Store, settings: Retraining
) -> None:
    """Its checkpoint survives, also if the job is ended at its budget."""
    make_champion(registry, GOOD)
    add_to_archive(settings.archive, small_windows(7))
    jobs: list[partial[object]] = []

    def noted(job: TrainingJob, _budget: Allowance) -> object:
        assert isinstance(job, partial)
        jobs.append(job)
        return job()

    def over(job: TrainingJob, budget: Allowance) -> object:
        noted(job, budget)
        raise OverBudget("learning took more than .8 s of processor time")

    def epochs() -> int:
        """How many epochs the checkpoint has; its head is JSON."""
        folder = registry.below(f"retraining/{settings.name}.checkpoints")
        [path] = folder.files()
        content = folder.open(path).read()
        length = int.from_bytes(content[:8], "little")
        return len(json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["history"]))

    def decides(outcome: str, run: Callable[[TrainingJob, Allowance], object] = noted) -> str:
        decided = retrain(registry, settings, NOW, run=run)
        assert decided.outcome == outcome, decided.reason
        return decided.reason

    decides("kept")
    done = [epochs()]
    begun = RetrainerState.read(registry, settings.name).begun
    assert begun.paused
    assert decides("not now") == "0 of 4 new windows"
    for until, outcome, run in ((11, "failed", over), (15, "kept", noted)):
        add_to_archive(settings.archive, small_windows(until)[until - 4 :])
        decides(outcome, run)
        done.append(epochs())
        assert decides("not now") == "0 of 4 new windows"
    assert done[0] < done[1] < done[2]
    first, *others = (job.args for job in jobs if job.func is learn_job)
    assert others == [first, first]  # the same windows


@pytest.mark.usefixtures("settings")
def test_weights_that_no_epoch_improved_are_not_called_learned(windows: Windows) -> None:
    ruinous = SMALL_ENCODER.changed(
        optimiser={"learning_rate": 1e9}, schedule={"epochs": 1, "samples": 3}
    )
    learned: Any = learn(labelled(windows[:3]), ruinous)
    assert (learned.encoder.state, learned.model.trained) == ("not trained", None)
    assert learned.model.method == "bp"
