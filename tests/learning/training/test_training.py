"""Training learns, repeats itself, and survives being killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings, ModelDamaged
from stream_icd.core.store.store import Store, open_store
from stream_icd.learning.training.icd.adversaries import Adversaries
from stream_icd.learning.training.icd.epochs import Epoch, best_epoch
from stream_icd.learning.training.icd.train_encoder import (
    CHECKPOINT_FILE,
    Training,
    train,
    validate,
)
from stream_icd.learning.training.icd.training_graph import prepare
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import ENCODERS, Differentiable, Weights, encoder
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe
from stream_icd.methods.model import Model
from tests.testbed.object_store import new_folder


class Killed(BaseException):
    """The process ends here."""


def kill_after(number: int):
    def progress(epoch: Epoch) -> None:
        if epoch.number == number:
            raise Killed

    return progress


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def run(history: list[LabelledGraph], recipe: Recipe, **options: object) -> Training:
    return train(history[:4], recipe, validation=history[4:], clock=lambda: 0.0, **options)


def test_the_losses_fall(history: list[LabelledGraph], recipe: Recipe) -> None:
    epochs = run(history, recipe.changed(schedule={"epochs": 3})).history
    rebuilt = [epoch.losses["reconstruction"] for epoch in epochs[1:]]
    assert rebuilt[2] < rebuilt[1] < rebuilt[0]


def test_regularisation_pulls_communities_together(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    strong = recipe.changed(losses={"alpha": 0, "beta": 1, "adversarial": False})
    epochs = run(history, strong.changed(schedule={"epochs": 3})).history
    assert epochs[3].losses["regularisation"] < epochs[1].losses["regularisation"]


@pytest.mark.parametrize(
    "losses",
    [
        {"alpha": 0, "beta": 0, "adversarial": True},
        {"alpha": 1, "beta": 0, "adversarial": False},
        {"alpha": 0, "beta": 1, "adversarial": False},
    ],
)
def test_each_loss_alone_moves_the_encoder_and_none_leaves_it(
    graph: LabelledGraph, recipe: Recipe, losses: dict[str, float]
) -> None:
    def after_a_step(recipe: Recipe) -> Weights:
        players = Adversaries(recipe)
        players.step(prepare(graph, recipe), rows=None)
        return players.generator_weights()

    untrained = Model(recipe).weights
    assert not same(after_a_step(recipe.changed(losses=losses)), untrained)
    none = {"alpha": 0, "beta": 0, "adversarial": False}
    assert same(after_a_step(recipe.changed(losses=none)), untrained)


@pytest.mark.parametrize("form", ["paper", "scripts"])
def test_the_discriminator_learns_to_tell_label_induced_rows(
    graph: LabelledGraph, recipe: Recipe, form: str
) -> None:
    frozen = recipe.changed(
        losses={"discriminator": form, "alpha": 0, "beta": 0, "adversarial": False},
        optimiser={"learning_rate": 1e-2},
    )
    players, prepared = Adversaries(frozen), prepare(graph, frozen)
    losses = [players.step(prepared, rows=None)["discriminator"] for _ in range(30)]
    assert losses[-1] < losses[0] - 0.05


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in sorted(ENCODERS)
        if isinstance(encoder(EncoderSettings(kind=kind, widths=(8, 4))), Differentiable)
    ],
)
def test_the_order_in_which_threads_come_changes_nothing(
    history: list[LabelledGraph], recipe: Recipe, kind: str
) -> None:
    recipe = recipe.changed(encoder={"kind": kind}, schedule={"epochs": 1, "samples": 2})
    first, again = run(history, recipe), run(history, recipe)
    assert same(first.last.weights, again.last.weights)


@pytest.mark.parametrize(("optimiser", "place"), [("adam", "disk"), ("rmsprop", "object store")])
def test_a_killed_run_resumes_with_the_same_result(
    history: list[LabelledGraph], recipe: Recipe, optimiser: str, place: str, disk: Store, s3: str
) -> None:
    checkpoints = disk if place == "disk" else open_store(new_folder(s3))
    recipe = recipe.changed(optimiser={"kind": optimiser, "weight_decay": 1e-5})
    whole = run(history, recipe)
    with pytest.raises(Killed):
        run(history, recipe, checkpoints=checkpoints, progress=kill_after(1))
    seen: list[int] = []
    resumed = run(
        history, recipe, checkpoints=checkpoints, progress=lambda e: seen.append(e.number)
    )
    assert seen == [2]
    assert resumed.history == whole.history
    assert same(resumed.model.weights, whole.model.weights)


def test_a_finished_run_may_be_made_longer(
    history: list[LabelledGraph], recipe: Recipe, disk: Store
) -> None:
    run(history, recipe.changed(schedule={"epochs": 1}), checkpoints=disk)
    longer = run(history, recipe, checkpoints=disk)
    assert longer.history == run(history, recipe).history


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_refused(
    history: list[LabelledGraph], recipe: Recipe, disk: Store
) -> None:
    run(history, recipe, checkpoints=disk)
    with pytest.raises(BadSettings, match="is of epoch 2, after the last one, 1: delete it"):
        run(history, recipe.changed(schedule={"epochs": 1}), checkpoints=disk)
    with pytest.raises(BadSettings, match="another recipe"):
        run(history, recipe.changed(seed=1), checkpoints=disk)
    path = Path(disk.root, CHECKPOINT_FILE)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelDamaged, match="delete it to start again"):
        run(history, recipe, checkpoints=disk)


def test_the_untrained_model_is_epoch_0(history: list[LabelledGraph], recipe: Recipe) -> None:
    trained = run(history, recipe.changed(schedule={"epochs": 0}))
    control = Model(recipe)
    assert [epoch.number for epoch in trained.history] == [0]
    assert trained.history[0].validation == validate(control, history[4:])
    assert same(trained.model.weights, control.weights)


def test_the_model_kept_is_that_of_the_best_epoch(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    ruinous = recipe.changed(schedule={"epochs": 2}, optimiser={"learning_rate": 3.0})
    trained = run(history, ruinous)
    scores = [epoch.validation for epoch in trained.history]
    assert scores[-1] < max(scores)
    assert validate(trained.model, history[4:]) == max(scores)


def test_each_epoch_draws_anew(history: list[LabelledGraph], recipe: Recipe) -> None:
    still = recipe.changed(optimiser={"learning_rate": 1e-12})
    first, second = (epoch.losses["reconstruction"] for epoch in run(history, still).history[1:])
    assert first != pytest.approx(second, rel=1e-4)


def test_validation_judges_the_encoder(history: list[LabelledGraph], recipe: Recipe) -> None:
    model = Model(recipe)
    nothing = {name: 0 * weight for name, weight in model.weights.items()}
    blank = Model(recipe, trained=nothing)
    assert validate(blank, history) < 0.5 < validate(model, history)


def test_without_labels_validation_is_by_modularity(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    unlabelled = [LabelledGraph(graph.adjacency) for graph in history[4:]]
    recipe = recipe.changed(schedule={"epochs": 0})
    trained = train(history[:4], recipe, validation=unlabelled)
    assert 0.3 < trained.history[0].validation < 0.7  # NMI would be above 0.9


def test_an_idle_first_epoch_updates_nothing(history: list[LabelledGraph], recipe: Recipe) -> None:
    idle = recipe.changed(schedule={"epochs": 1, "idle_first_epoch": True})
    trained = run(history, idle)
    assert trained.history[0].validation == trained.history[1].validation
    assert trained.history[1].losses["reconstruction"] > 0


def test_graphs_without_labels_get_those_of_highest_modularity(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    adjacency, short = history[0].adjacency, recipe.changed(schedule={"epochs": 1})
    labels = find_communities(adjacency, BpParameters(), seed=recipe.seed)
    graphs = LabelledGraph(adjacency), LabelledGraph(adjacency, labels)
    without, told = (train([graph], short, validation=history[4:]) for graph in graphs)
    assert same(without.last.weights, told.last.weights)


def test_graphs_without_edges_teach_nothing(history: list[LabelledGraph], recipe: Recipe) -> None:
    without, short = (
        LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32)),
        recipe.changed(schedule={"epochs": 1, "samples": 3}),
    )
    for nothing in ([], [without]):
        with pytest.raises(BadSettings, match="graphs with edges to learn from, .* got 0 and 2"):
            train(nothing, recipe, validation=history[4:])
    trained = train([without, *history[:4]], short, validation=history[4:])
    assert same(trained.model.weights, run(history, short).model.weights)


def test_a_device_that_is_not_there_is_refused(
    history: list[LabelledGraph], recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BadSettings, match="device='cpu'"):
        run(history, recipe, device="cuda")


def test_the_earliest_of_equal_epochs_is_best() -> None:
    history = tuple(Epoch(n, score, {}, 0.0) for n, score in enumerate((0.5, 0.9, 0.9)))
    assert best_epoch(history).number == 1
