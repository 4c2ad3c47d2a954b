"""The paper's training: its losses have their values, it repeats itself, and survives a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings, ModelDamaged
from stream_icd.core.store.store import Store, open_store
from stream_icd.learning.training.icd.epochs import Epoch, Training, best_epoch
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import ENCODERS, Differentiable, Weights, encoder
from stream_icd.methods.icd.features import structure_matrix
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe, Variant
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.streaming.detection.detect import detect
from tests.testbed.object_store import new_folder

if TYPE_CHECKING:
    from torch import Tensor


@pytest.fixture(autouse=True, scope="module")
def _torch() -> None:
    pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")


class Killed(BaseException):
    """The process ends here."""


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def train(graphs: list[LabelledGraph], recipe: Recipe, **options: Any) -> Training:
    from stream_icd.learning.training.icd import train_encoder

    return train_encoder.train(graphs, recipe, **options)


def run(history: list[LabelledGraph], recipe: Recipe, **options: Any) -> Training:
    return train(history[:4], recipe, validation=history[4:], clock=lambda: 0.0, **options)


def match(graph: LabelledGraph, recipe: Recipe) -> tuple[Any, Any]:
    """Encoder and discriminator, and a graph that they are trained on."""
    from stream_icd.learning.training.icd.train_encoder import Adversaries
    from stream_icd.learning.training.icd.training_graph import TrainingGraph

    return Adversaries(recipe), TrainingGraph.of(graph, recipe)


def score(model: Model, graphs: list[LabelledGraph]) -> float:
    """What validation says of a model."""
    found = [
        detect(one.adjacency, model, one.n_communities, method="icd").communities for one in graphs
    ]
    return float(
        np.mean([nmi(one.labels, labels) for one, labels in zip(graphs, found, strict=True)])
    )


def test_reconstruction_and_regularisation_fall(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    epochs = run(history, recipe.changed(schedule={"epochs": 3})).history
    rebuilt = [epoch.losses["reconstruction"] for epoch in epochs[1:]]
    assert rebuilt[2] < rebuilt[1] < rebuilt[0]
    strong = recipe.changed(losses={"alpha": 0, "beta": 1, "adversarial": False})
    epochs = run(history, strong.changed(schedule={"epochs": 3})).history
    assert epochs[3].losses["regularisation"] < epochs[1].losses["regularisation"]


def test_each_loss_alone_moves_the_encoder_and_none_leaves_it(
    graph: LabelledGraph, recipe: Recipe
) -> None:
    def is_moved(alpha: float, beta: float, adversarial: bool) -> bool:
        losses = {"alpha": alpha, "beta": beta, "adversarial": adversarial}
        players, prepared = match(graph, recipe.changed(losses=losses))
        players.step(prepared, rows=None)
        return not same(players.generator_weights(), Model(recipe).weights)

    alone = (0, 0, True), (1, 0, False), (0, 1, False), (0, 0, False)
    assert [is_moved(*losses) for losses in alone] == [True, True, True, False]


@pytest.mark.parametrize("form", ["paper", "scripts"])
def test_the_discriminator_learns_to_tell_label_induced_rows(
    graph: LabelledGraph, recipe: Recipe, form: str
) -> None:
    frozen = recipe.changed(
        losses={"discriminator": form, "alpha": 0, "beta": 0, "adversarial": False},
        optimiser={"learning_rate": 1e-2},
    )
    players, prepared = match(graph, frozen)
    losses = [players.step(prepared, rows=None)["discriminator"] for _ in range(30)]
    assert losses[-1] < losses[0] - 0.05


@pytest.fixture
def _two_threads() -> Iterator[None]:
    import torch

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

    def killed(epoch: Epoch) -> None:
        if epoch.number == 1:
            raise Killed

    with pytest.raises(Killed):
        run(history, recipe, checkpoints=checkpoints, progress=killed)
    epochs: list[int] = []
    resumed = run(
        history, recipe, checkpoints=checkpoints, progress=lambda epoch: epochs.append(epoch.number)
    )
    assert epochs == [2]
    assert resumed.history == whole.history
    assert same(resumed.model.weights, whole.model.weights)
    # A finished run may be made longer.
    longer = recipe.changed(schedule={"epochs": 3})
    assert run(history, longer, checkpoints=checkpoints).history == run(history, longer).history


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_refused(
    history: list[LabelledGraph], recipe: Recipe, disk: Store
) -> None:
    run(history, recipe, checkpoints=disk)
    with pytest.raises(BadSettings, match="is of epoch 2, after the last one, 1: delete it"):
        run(history, recipe.changed(schedule={"epochs": 1}), checkpoints=disk)
    with pytest.raises(BadSettings, match="another recipe"):
        run(history, recipe.changed(seed=1), checkpoints=disk)
    path = Path(disk.root, "checkpoint.safetensors")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelDamaged, match="delete it to start again"):
        run(history, recipe, checkpoints=disk)


def test_the_model_kept_is_that_of_the_best_epoch_and_epoch_0_is_the_untrained_one(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    ruinous = recipe.changed(schedule={"epochs": 2}, optimiser={"learning_rate": 3.0})
    trained = run(history, ruinous)
    scores = [epoch.validation for epoch in trained.history]
    assert [epoch.number for epoch in trained.history] == [0, 1, 2]
    assert scores[-1] < max(scores)
    assert score(trained.model, history[4:]) == pytest.approx(max(scores))
    control = Model(recipe)
    assert scores[0] == pytest.approx(score(control, history[4:]))
    assert same(run(history, recipe.changed(schedule={"epochs": 0})).model.weights, control.weights)
    equal = tuple(Epoch(n, one, {}, 0.0) for n, one in enumerate((0.5, 0.9, 0.9)))
    assert best_epoch(equal).number == 1


def test_each_epoch_draws_anew_and_an_idle_first_one_updates_nothing(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    still = recipe.changed(optimiser={"learning_rate": 1e-12})
    first, second = (epoch.losses["reconstruction"] for epoch in run(history, still).history[1:])
    assert first != pytest.approx(second, rel=1e-4)
    idle = recipe.changed(schedule={"epochs": 1, "idle_first_epoch": True})
    untrained, epoch = run(history, idle).history
    assert untrained.validation == epoch.validation
    assert epoch.losses["reconstruction"] > 0


def test_without_labels_those_of_highest_modularity_teach_and_modularity_validates(
    history: list[LabelledGraph], recipe: Recipe
) -> None:
    adjacency, short = history[0].adjacency, recipe.changed(schedule={"epochs": 1})
    labels = find_communities(adjacency, BpParameters(), seed=recipe.seed)
    graphs = LabelledGraph(adjacency), LabelledGraph(adjacency, labels)
    unlabelled = [LabelledGraph(graph.adjacency) for graph in history[4:]]
    without, told = (train([graph], short, validation=unlabelled) for graph in graphs)
    assert same(without.last.weights, told.last.weights)
    assert 0.3 < without.history[0].validation < 0.7  # NMI would be above 0.9


def test_graphs_without_edges_teach_nothing_and_without_others_or_a_device_it_refuses(
    history: list[LabelledGraph], recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32))
    short = recipe.changed(schedule={"epochs": 1, "samples": 3})
    trained = train([without, *history[:4]], short, validation=history[4:])
    assert same(trained.model.weights, run(history, short).model.weights)
    for nothing in ([], [without]):
        with pytest.raises(BadSettings, match="graphs with edges to learn from, .* got 0 and 2"):
            train(nothing, recipe, validation=history[4:])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(BadSettings, match="device='cpu'"):
        run(history, recipe, device="cuda")


@pytest.fixture(scope="module")
def embedding() -> Tensor:
    import torch

    rows = np.random.default_rng(0).standard_normal((300, 8)) / 3
    return torch.from_numpy(rows).float().requires_grad_()


def dense_losses(
    graph: LabelledGraph, embedding: Tensor, variant: Variant, scaled: bool
) -> tuple[Tensor, Tensor]:
    """The paper's formulae, written down with dense matrices."""
    import torch

    x = structure_matrix(graph.adjacency, variant).toarray()
    if scaled:
        x = 2 * (x - x.min()) / (x.max() - x.min()) - 1
    members = np.eye(graph.n_communities)[graph.labels]
    if variant == "ICD-C":
        degrees = graph.adjacency.sum(axis=1)
        members = np.sqrt(degrees)[:, None] * members / np.sqrt(members.T @ degrees)
    rebuilt = torch.tanh(embedding @ embedding.T)
    h = torch.from_numpy(members).float()
    return (rebuilt - torch.from_numpy(x).float()).square().sum(), -torch.trace(h.T @ rebuilt @ h)


@pytest.mark.parametrize(
    ("variant", "scaled", "block"),
    [("ICD-M", False, 128), ("ICD-M", True, 1024), ("ICD-C", True, 128)],
)
def test_reconstruction_and_regularisation_equal_the_dense_formulae(
    graph: LabelledGraph,
    embedding: Tensor,
    variant: Variant,
    scaled: bool,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from stream_icd.learning.training.icd import training_graph

    monkeypatch.setattr(training_graph, "_BLOCK_ROWS", block)
    found = training_graph.Reconstruction(graph.adjacency, graph.labels, variant, scaled).losses(
        embedding
    )
    expected = dense_losses(graph, embedding, variant, scaled)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
    gradients = [torch.autograd.grad(sum(pair), embedding)[0] for pair in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_sampled_rows_are_right_on_average(graph: LabelledGraph, embedding: Tensor) -> None:
    import torch

    from stream_icd.learning.training.icd.training_graph import Reconstruction

    reconstruction = Reconstruction(graph.adjacency, graph.labels, "ICD-M")
    order = np.random.default_rng(1).permutation(300)
    parts = [reconstruction.losses(embedding, rows) for rows in np.split(order, 10)]
    mean = torch.stack([torch.stack(part) for part in parts]).detach().mean(dim=0)
    torch.testing.assert_close(mean, torch.stack(reconstruction.losses(embedding)).detach())


@pytest.mark.parametrize("form", ["paper", "scripts"])
def test_the_adversarial_losses_are_those_of_the_paper(
    graph: LabelledGraph, recipe: Recipe, form: str
) -> None:
    players, prepared = match(graph, recipe.changed(losses={"discriminator": form}))
    forward = encoder(recipe.encoder).forward  # type: ignore[attr-defined]

    def judged(neighbourhood: object) -> Tensor:
        """The probability D(U) that a row is label-induced."""
        hidden = forward(players.generator, prepared.features, neighbourhood)
        *layers, last = zip(*[iter(players.discriminator.values())] * 2, strict=True)
        for weight, bias in layers:
            hidden = (hidden @ weight + bias).relu()
        return (hidden @ last[0] + last[1]).sigmoid()

    induced, embedded = judged(prepared.label_induced), judged(prepared.neighbourhood)
    of_truth, of_fakes = induced.log().mean(), (1 - embedded).log().mean()
    expected = -of_truth - of_fakes if form == "paper" else embedded.log().mean() - of_truth
    losses = players.step(prepared, rows=None, update=False)
    assert losses["discriminator"] == pytest.approx(expected.item(), rel=1e-4)
    assert losses["adversarial"] == pytest.approx(-embedded.log().mean().item(), rel=1e-4)
    # A probability of zero is no infinity.
    *_, bias = players.discriminator.values()
    bias.data.fill_(-1e4)
    assert np.isfinite(list(players.step(prepared, rows=None, update=False).values())).all()


def test_the_label_induced_graph_gives_what_the_dense_matrix_would() -> None:
    """R Rᵀ, of which the implicit one never holds a block; and so does the graph itself."""
    import torch

    from stream_icd.learning.training.icd.training_graph import LabelInducedNeighbourhood
    from stream_icd.methods.icd.encoder.neighbourhood import GraphNeighbourhood

    labels = np.array([0, 1, 0, 2, 1, 0, 1], dtype=np.int32)
    hidden = torch.from_numpy(np.random.default_rng(0).standard_normal((7, 3))).float()
    one_hot = torch.from_numpy(np.eye(3, dtype=np.float32)[labels])
    dense, induced = one_hot @ one_hot.T, LabelInducedNeighbourhood(labels)
    torch.testing.assert_close(induced.total(hidden), dense @ hidden)
    with_loops = dense + torch.eye(7)
    root = with_loops.sum(dim=1).rsqrt()
    expected = (root[:, None] * with_loops * root) @ hidden
    torch.testing.assert_close(induced.convolve(hidden), expected)
    source, target = torch.linspace(-1, 1, 7), torch.linspace(2, -2, 7).roll(2)
    score = torch.nn.functional.leaky_relu(source[:, None] + target, 0.2)
    expected = score.masked_fill(dense == 0, -torch.inf).softmax(dim=1) @ hidden
    graph = GraphNeighbourhood(csr_array((dense - torch.eye(7)).numpy().astype(float)))
    for neighbourhood in (induced, graph):
        torch.testing.assert_close(neighbourhood.attend(source, target, hidden), expected)
