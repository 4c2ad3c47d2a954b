"""Train the paper's encoder on labelled graphs: encoder G against discriminator D (algorithm 2)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import pairwise
from math import inf
from typing import Literal

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from stream_icd.core.errors import BadSettings, ModelDamaged
from stream_icd.core.store.store import Store
from stream_icd.learning.training.icd.epochs import Epoch, History, Training, best_epoch
from stream_icd.learning.training.icd.training_graph import TrainingGraph
from stream_icd.learning.training.yardstick import nmi_or_modularity
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import (
    Differentiable,
    Weights,
    encoder,
    initial_weight,
    initial_weights,
)
from stream_icd.methods.icd.presets import PRESETS
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.streaming.detection.detect import detect

_CHECKPOINT_FILE = "checkpoint.safetensors"

_Parameters = dict[str, Tensor]

_EPSILON = 1e-15
"""Added to each probability before the logarithm, as in the authors' scripts."""

_PREPARED = 64
"""How many graphs are kept as tensors; each takes about 100 bytes per edge."""


def train(
    graphs: Sequence[LabelledGraph],
    recipe: Recipe,
    *,
    validation: Sequence[LabelledGraph],
    checkpoints: Store | None = None,
    device: str = "cpu",
    threads: int = 2,
    progress: Callable[[Epoch], None] = lambda _: None,
    on_step: Callable[[int, int], None] = lambda _done, _total: None,
    seconds: float = inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Training:
    """Train an encoder, and keep the epoch with the best score on the validation graphs.

    The same recipe and graphs give the same model on a CPU, unless the time is up.

    Args:
        graphs: to learn from (`TrainingGraph.of`); each step draws one, with replacement. Those
            without edges are left out.
        validation: for the score after each epoch; see `_validate`.
        checkpoints: folder for a checkpoint after each epoch. If it holds one of this recipe, the
            run continues from there.
        progress: called after each epoch, also after epoch 0, the untrained model.
        on_step: called after each step with the number of steps done, including those before a
            restart, and the total.
        seconds: time limit by the clock. If it is reached, the epoch ends after the graph, and is
            the last one; a run with the same checkpoints goes on with the next epoch.

    Raises:
        BadSettings: no graphs, no such device, or the checkpoint is of another recipe or a longer
            training.
        ModelDamaged: the checkpoint cannot be read.
    """
    graphs = [graph for graph in graphs if graph.adjacency.nnz]
    if not graphs or not validation:
        raise BadSettings(
            f"training needs graphs with edges to learn from, and others to validate on; "
            f"got {len(graphs)} and {len(validation)}"
        )
    if device != "cpu" and not torch.cuda.is_available():
        raise BadSettings(f"torch has no {device!r} on this machine; give device='cpu'")
    players = Adversaries(recipe, device)
    resumed = None if checkpoints is None else _load_checkpoint(recipe, checkpoints)
    if resumed is not None:
        players.restore(resumed.state)
    run = resumed or _Checkpoint((), players.generator_weights(), players.state())

    @lru_cache(_PREPARED)
    def prepared_graph(index: int) -> TrainingGraph:
        return TrainingGraph.of(graphs[index], recipe, device)

    end = clock() + seconds

    def is_late() -> bool:
        return clock() >= end

    for number in range(len(run.history), recipe.schedule.epochs + 1):
        # Never before epoch 0, with which the others are compared.
        if run.history and is_late():
            break
        started = clock()
        losses = _run_epoch(number, players, recipe, len(graphs), prepared_graph, on_step, is_late)
        score = _validate(Model(recipe, trained=players.generator_weights()), validation, threads)
        epoch = Epoch(number, score, losses, clock() - started)
        history = (*run.history, epoch)
        better = best_epoch(history) is epoch
        best = players.generator_weights() if better else run.best
        run = _Checkpoint(history, best, players.state())
        if checkpoints is not None:
            _save_checkpoint(run, recipe, checkpoints)
        # After the checkpoint: who ends the program here loses nothing.
        progress(epoch)
    last = Model(recipe, trained=players.generator_weights())
    return Training(Model(recipe, trained=run.best), last, run.history)


def _run_epoch(
    number: int,
    players: Adversaries,
    recipe: Recipe,
    n_graphs: int,
    prepared_graph: Callable[[int], TrainingGraph],
    on_step: Callable[[int, int], None],
    is_late: Callable[[], bool],
) -> dict[str, float]:
    """Draw p graphs with replacement, update m times on each, and return the mean of each loss.

    If it is late, the epoch ends after the graph.
    """
    if number == 0:  # the untrained model
        return {}
    # One for each epoch: a run that resumes draws what an uninterrupted one draws.
    rng = np.random.default_rng([recipe.seed, 2, number])
    update = not (recipe.schedule.idle_first_epoch and number == 1)
    steps = []
    in_epoch = recipe.schedule.samples * recipe.schedule.repeats
    for index in rng.integers(n_graphs, size=recipe.schedule.samples):
        graph = prepared_graph(int(index))
        for _ in range(recipe.schedule.repeats):
            n, n_rows = graph.n_nodes, recipe.losses.rows
            all_rows = n_rows is None or n_rows >= n
            rows = None if all_rows else rng.choice(n, n_rows, replace=False)
            steps.append(players.step(graph, rows, update))
            on_step((number - 1) * in_epoch + len(steps), recipe.schedule.epochs * in_epoch)
        if is_late():
            break
    return {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}


def _validate(model: Model, graphs: Sequence[LabelledGraph], threads: int = 2) -> float:
    """The mean score of a model: NMI with the known communities, else modularity (section 5.1).

    K is that of the labels; without labels, it is estimated.
    """
    find = partial(detect, model=model, method="icd", seed=model.recipe.seed, threads=threads)
    communities = (
        find(graph.adjacency, n_communities=graph.n_communities).communities for graph in graphs
    )
    return float(np.mean(list(map(nmi_or_modularity, graphs, communities))))


class Adversaries:
    """The encoder G and the discriminator D, which are trained against each other.

    Raises `BadSettings` if the recipe has no discriminator, or an encoder for labels only.
    """

    def __init__(self, recipe: Recipe, device: str = "cpu") -> None:
        if recipe.discriminator_widths is None:
            raise BadSettings(
                f"the recipe {recipe.name!r} trains no encoder, since it has no "
                f"discriminator_widths: take one of the paper's, {', '.join(PRESETS)}"
            )
        trained = encoder(recipe.encoder)
        if not isinstance(trained, Differentiable):
            raise BadSettings(
                f"the recipe {recipe.name!r} has the encoder {recipe.encoder.kind}, which learns "
                "from labels and needs no discriminator: leave out discriminator_widths, or take "
                "another encoder"
            )
        rng = np.random.default_rng([recipe.seed, 1])
        self._recipe, self._encoder = recipe, trained
        self.generator = _parameters(initial_weights(recipe), device)
        self.discriminator = _parameters(
            _initial_discriminator(recipe.discriminator_widths, rng), device
        )
        self._players = {"G": self.generator, "D": self.discriminator}
        self._optimisers = {
            player: _optimiser(parameters, recipe) for player, parameters in self._players.items()
        }

    def step(
        self, graph: TrainingGraph, rows: NDArray[np.int64] | None, update: bool = True
    ) -> dict[str, float]:
        """Update D, then G, on one graph; return each loss by name, as it was before the update.

        FR and CR are computed from these rows of X; None: all. Without `update`, nothing changes.
        """
        encode = partial(self._encoder.forward, self.generator, graph.features)
        embedded = encode(graph.neighbourhood)  # D's update does not change it
        with torch.no_grad():  # no gradients for G: this step updates D only
            induced = encode(graph.label_induced)
        losses = {"discriminator": self._step_discriminator(induced, embedded.detach(), update)}
        return losses | self._step_generator(graph, embedded, rows, update)

    def generator_weights(self) -> Weights:
        """The parameters of G, in the form of `Model.weights`."""
        return {
            name: weight.detach().cpu().numpy().copy() for name, weight in self.generator.items()
        }

    def state(self) -> _Parameters:
        """_Parameters and optimiser states by name: all that is needed to resume."""
        flat: _Parameters = {}
        for player, parameters in self._players.items():
            flat |= {f"{player}.{name}": weight.detach() for name, weight in parameters.items()}
        for player, optimiser in self._optimisers.items():
            for index, moments in optimiser.state_dict()["state"].items():
                flat |= {f"{player}.moment.{index}.{key}": m for key, m in moments.items()}
        return flat

    def restore(self, flat: _Parameters) -> None:
        with torch.no_grad():
            for player, parameters in self._players.items():
                for name, weight in parameters.items():
                    weight.copy_(flat[f"{player}.{name}"])
        for player, optimiser in self._optimisers.items():
            state: dict[int, _Parameters] = {}
            for name, moment in flat.items():
                if name.startswith(f"{player}.moment."):
                    index, key = name.split(".")[2:]
                    state.setdefault(int(index), {})[key] = moment
            # The rates stay those of the recipe: only the moments are restored.
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": state, "param_groups": groups})

    def _step_discriminator(self, induced: Tensor, embedded: Tensor, update: bool) -> float:
        loss = _discriminator_loss(
            _discriminate(self.discriminator, induced),
            _discriminate(self.discriminator, embedded),
            self._recipe.losses.discriminator,
        )
        if update:
            _descend(self._optimisers["D"], loss)
        return loss.item()

    def _step_generator(
        self, graph: TrainingGraph, embedded: Tensor, rows: NDArray[np.int64] | None, update: bool
    ) -> dict[str, float]:
        settings = self._recipe.losses
        # AL: low if D takes the rows of U for label-induced ones.
        adversarial = -(_discriminate(self.discriminator, embedded) + _EPSILON).log().mean()
        reconstruction, regularisation = graph.reconstruction.losses(embedded, rows)
        loss = settings.alpha * reconstruction + settings.beta * regularisation
        if settings.adversarial:
            loss = loss + adversarial
        if update:
            _descend(self._optimisers["G"], loss)
        return {
            "adversarial": adversarial.item(),
            "reconstruction": reconstruction.item(),
            "regularisation": regularisation.item(),
        }


def _parameters(weights: Weights, device: str) -> _Parameters:
    return {
        name: torch.as_tensor(weight.copy(), device=device).requires_grad_()
        for name, weight in weights.items()
    }


def _optimiser(parameters: _Parameters, recipe: Recipe) -> torch.optim.Optimizer:
    settings = recipe.optimiser
    kind = torch.optim.Adam if settings.kind == "adam" else torch.optim.RMSprop
    return kind(parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def _discriminator_loss(
    label_induced: Tensor, embedded: Tensor, form: Literal["paper", "scripts"]
) -> Tensor:
    """The loss of D, given D(Uᵍ) and D(U), `(n,)` each; see `Recipe.losses`."""
    truth = (label_induced + _EPSILON).log().mean()
    if form == "paper":
        return -truth - (1 - embedded + _EPSILON).log().mean()
    return (embedded + _EPSILON).log().mean() - truth


def _initial_discriminator(widths: tuple[int, ...], rng: np.random.Generator) -> Weights:
    weights: Weights = {}
    for k, step in enumerate(pairwise(widths)):
        weights[f"layer.{k}"] = initial_weight(rng, step, "xavier")
        weights[f"bias.{k}"] = np.zeros(step[1], np.float32)
    return weights


def _discriminate(weights: Mapping[str, Tensor], embedding: Tensor) -> Tensor:
    """D(U), `(n,)`: the probability that each row of U, `(n, d)`, is label-induced (eq. 7)."""
    hidden = embedding
    n_layers = len(weights) // 2
    for k in range(n_layers):
        hidden = hidden @ weights[f"layer.{k}"] + weights[f"bias.{k}"]
        hidden = hidden.relu() if k < n_layers - 1 else hidden.sigmoid()
    return hidden[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class _Checkpoint:
    """A training run after an epoch: the best weights so far, and `Adversaries.state`."""

    history: History
    best: Weights
    state: _Parameters


def _save_checkpoint(run: _Checkpoint, recipe: Recipe, folder: Store) -> None:
    tensors = {name: tensor.cpu().contiguous() for name, tensor in run.state.items()}
    tensors |= {f"best.{name}": torch.from_numpy(weight) for name, weight in run.best.items()}
    history = json.dumps([asdict(epoch) for epoch in run.history])
    head = {"recipe": recipe.digest(), "history": history}
    # One file, so that weights, moments and history are always of one epoch.
    folder.put(_CHECKPOINT_FILE, pa.py_buffer(save(tensors, metadata=head)))


def _load_checkpoint(recipe: Recipe, folder: Store) -> _Checkpoint | None:
    """The folder's checkpoint; None if there is none. Raises as `train`."""
    if not folder.exists(_CHECKPOINT_FILE):
        return None
    path = f"{folder.place}/{_CHECKPOINT_FILE}"
    with folder.open(_CHECKPOINT_FILE) as file:
        content: bytes = file.read()
    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")  # of the header, which is JSON
        head = json.loads(content[8 : 8 + length]).get("__metadata__", {})
        if head.get("recipe") != recipe.digest():
            raise BadSettings(f"{path} belongs to another recipe: give this run its own folder")
        history = tuple(Epoch(**epoch) for epoch in json.loads(head["history"]))
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelDamaged(f"{path} cannot be read ({error}): delete it to start again") from error
    if history and history[-1].number > recipe.schedule.epochs:
        raise BadSettings(
            f"{path} is of epoch {history[-1].number}, after the last one, "
            f"{recipe.schedule.epochs}: delete it to start again, or train for more epochs"
        )
    names = [name for name in tensors if name.startswith("best.")]
    best = {name.removeprefix("best."): np.asarray(tensors.pop(name)) for name in names}
    return _Checkpoint(history, best, tensors)
