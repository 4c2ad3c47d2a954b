"""What windows teach, and how two models are compared on them."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.arrays import NOBODY
from stream_icd.core.communities import Labels
from stream_icd.core.errors import NoGoodRows
from stream_icd.core.store.store import open_store
from stream_icd.learning.retraining import learn as learning
from stream_icd.learning.retraining.jobs import compare_models
from stream_icd.learning.retraining.learn import learn
from stream_icd.learning.retraining.windows import Lesson, lesson
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.registry.model import pack
from stream_icd.sources.generated import planted_snapshots
from tests.testbed.lessons import small_windows

WINDOWS = small_windows(6)
LESSONS = [lesson(*window) for window in WINDOWS]


def _model(**parameters: float) -> Model:
    recipe = Recipe(name="test")
    return Model(recipe, BpParameters(**parameters))  # type: ignore[arg-type]


SMALL = Recipe(name="small", seed=1, data="here")
GOOD, JOINS_ALL = _model(mixing=0.5), _model(resolution=0.01)


def _changed(at: int, **changes: object) -> Lesson:
    snapshot, labels = WINDOWS[at]
    return lesson(snapshot, replace(labels, **changes))  # type: ignore[arg-type]


def test_labels_are_joined_with_the_nodes_they_name() -> None:
    snapshot, labels = WINDOWS[0]
    order = np.random.default_rng(0).permutation(len(labels.nodes))
    known = lesson(
        snapshot, replace(labels, nodes=labels.nodes.take(order), labels=labels.labels[order])
    )
    assert known.known == "all nodes"
    assert known.labels is not None
    assert len(np.unique(np.stack([known.labels, labels.labels]), axis=1).T) == 8


def test_some_labels_are_kept_apart_from_all() -> None:
    snapshot, labels = WINDOWS[0]
    some = _changed(0, nodes=labels.nodes[:100], labels=labels.labels[:100] % 100)
    assert some.known == "some nodes"
    assert some.labels is not None
    assert (some.labels == NOBODY).sum() == snapshot.n_nodes - 100
    assert some.graph(by_labels=True).labels is None  # too few to teach
    [paired] = compare_models([some], GOOD, GOOD)
    assert paired.champion.nmi is not None  # but enough to compare


def test_labels_of_unknown_nodes_are_not_used() -> None:
    snapshot, labels = WINDOWS[0]
    ghosts = pa.array(range(10_000, 10_003), snapshot.nodes.type)
    more = _changed(
        0,
        nodes=pa.concat_arrays([labels.nodes, ghosts]),
        labels=np.append(labels.labels, [0, 1, 2]).astype(np.int32),
    )
    assert more.known == "all nodes"
    assert more.labels is not None
    assert len(more.labels) == snapshot.n_nodes
    text = _changed(0, nodes=labels.nodes.cast(pa.string()))
    assert text.known == "none"


@pytest.mark.parametrize("poison", ["one community", "by chance"])
def test_labels_that_contradict_the_edges_teach_nothing(poison: str) -> None:
    labels: Labels = WINDOWS[0][1]
    wrong = np.zeros_like(labels.labels)
    if poison == "by chance":
        wrong = np.random.default_rng(1).permutation(labels.labels)
    poisoned = _changed(0, labels=wrong)
    assert poisoned.known == "contradicted"
    assert poisoned.labels is None


def test_some_wrong_labels_are_still_labels() -> None:
    labels = WINDOWS[0][1].labels.copy()
    flipped = np.random.default_rng(2).choice(len(labels), len(labels) // 10, replace=False)
    labels[flipped] = (labels[flipped] + 1) % 8
    assert _changed(0, labels=labels).known == "all nodes"


def test_learning_from_labels_suits_detectors_that_are_not_given_k() -> None:
    """With K given, low resolutions are as good as any other here, and without K they are not."""
    rng = np.random.default_rng(3)
    graphs = (generate_gn(rng, 600, 60, 0.8) for _ in range(3))
    lessons = [lesson(*window) for window in planted_snapshots(graphs, "many", "test")]
    learned, windows, _ = learn(lessons, SMALL)
    assert {one.by for one in windows} == {"labels"}
    one = lessons[0]
    assert one.labels is not None
    found = find_communities(one.snapshot.adjacency(), learned.bp)
    assert nmi(one.labels, found) > 0.99


def test_labels_teach_if_most_windows_have_them() -> None:
    bare = Lesson(LESSONS[0].snapshot)
    _, windows, _ = learn([bare, *LESSONS[1:3]], SMALL)
    assert [one.by for one in windows] == ["labels"] * 2
    model, windows, _ = learn([LESSONS[0], bare], SMALL)
    assert pack(model).version.startswith("small@")
    assert [(one.by, one.window) for one in windows] == [
        ("edges", LESSONS[0].snapshot.id),
        ("edges", bare.snapshot.id),
    ]
    assert windows[0].known == "all nodes"


def test_the_better_model_has_a_better_score_on_hidden_edges_and_nmi() -> None:
    ticks = count()
    paired = compare_models(LESSONS, JOINS_ALL, GOOD, cpu_clock=lambda: float(next(ticks)))
    assert len(paired) == len(LESSONS)
    for one in paired:
        assert one.champion.hidden_edges == pytest.approx(0)
        assert one.challenger.hidden_edges > 0.3
        assert one.champion.nmi == pytest.approx(0)
        assert one.challenger.nmi is not None
        assert one.challenger.nmi > 0.95
        assert one.champion.seconds == 1.0
    assert paired[0].challenger.churn is None
    assert [one.champion.churn for one in paired[1:]] == [0.0] * 5


def test_a_model_is_equal_to_itself() -> None:
    for model in compare_models(LESSONS, GOOD, GOOD, seed=3, cpu_clock=lambda: 0.0):
        assert model.champion == model.challenger


ENCODER = Recipe(
    name="mine",
    seed=1,
    data="here",
    encoder={"widths": (64, 32, 16)},
    discriminator_widths=(16, 1),
    schedule={"epochs": 2, "samples": 2},
    losses={"rows": 50},
)


@pytest.fixture
def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder is trained with torch; bp's numbers, which it does not need, take no time."""
    pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")
    known = SimpleNamespace(parameters=GOOD.bp)
    monkeypatch.setattr(learning, "fit_parameters", lambda *_, **__: known)


@pytest.mark.usefixtures("_torch")
def test_an_encoder_is_trained_where_it_is_asked_for(tmp_path: Path) -> None:
    bare = [Lesson(one.snapshot) for one in LESSONS[:3]]
    checkpoints = open_store(str(tmp_path))
    trained, *_ = learn(bare, ENCODER, checkpoints=checkpoints)
    assert pack(trained).version.startswith("mine@")
    assert trained.recipe == ENCODER
    assert len(checkpoints.files()) == 1


@pytest.mark.usefixtures("_torch")
def test_a_training_that_was_interrupted_has_the_same_result(tmp_path: Path) -> None:
    lessons = LESSONS[:3]
    whole, parts = open_store(str(tmp_path / "whole")), open_store(str(tmp_path / "parts"))
    at_once, *_ = learn(lessons, ENCODER, checkpoints=whole)
    learn(lessons, ENCODER.changed(schedule={"epochs": 1}), checkpoints=parts)
    resumed, *_ = learn(lessons, ENCODER, checkpoints=parts)
    for name, weights in at_once.weights.items():
        np.testing.assert_array_equal(resumed.weights[name], weights)
    with pytest.raises(NoGoodRows, match="at least 2 windows with edges, not 1"):
        learn(lessons[:1], ENCODER, checkpoints=whole)


def test_models_are_compared_by_the_method_that_they_are_for() -> None:
    """The weights of the encoder matter to icd only."""
    small = Recipe(name="a", encoder={"widths": (32, 8)}, discriminator_widths=(8, 1))
    other = small.changed(seed=5)
    first, second = (Model(recipe, GOOD.bp) for recipe in (small, other))
    [by_bp] = compare_models(LESSONS[:1], first, second, cpu_clock=lambda: 0.0)
    assert by_bp.champion == by_bp.challenger
    [by_icd] = compare_models(LESSONS[:1], first, second, cpu_clock=lambda: 0.0, method="icd")
    assert by_icd.champion != by_icd.challenger
