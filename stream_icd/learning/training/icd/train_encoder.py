"""Train the paper's encoder on labelled graphs (paper, algorithm 2)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from math import inf

import numpy as np
import pyarrow as pa
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from stream_icd.core.errors import BadSettings, ModelDamaged
from stream_icd.core.store.store import Store
from stream_icd.learning.training.icd.adversaries import Adversaries, Parameters
from stream_icd.learning.training.icd.epochs import Epoch, History, best_epoch
from stream_icd.learning.training.icd.training_graph import TrainingGraph, prepare
from stream_icd.learning.training.yardstick import nmi_or_modularity
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.streaming.detection.detect import detect

CHECKPOINT_FILE = "checkpoint.safetensors"

_PREPARED = 64
"""How many graphs are kept as tensors; each takes about 100 bytes per edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A finished training: the model after the best epoch, and after the last one, for reports."""

    model: Model
    last: Model
    history: History

    @property
    def improved(self) -> Weights | None:
        """The weights of the best epoch; None if it is epoch 0, the untrained encoder."""
        return self.model.trained if best_epoch(self.history).number else None

    def is_whole(self, recipe: Recipe) -> bool:
        """Whether all epochs of the recipe were done."""
        return self.history[-1].number >= recipe.schedule.epochs


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
        graphs: to learn from; each step draws one, with replacement. See `prepare`. Those without
            edges are left out.
        validation: for the score after each epoch; see `validate`.
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
    kept = None if checkpoints is None else load_checkpoint(recipe, checkpoints)
    if kept is not None:
        players.restore(kept.state)
    run = kept or _Checkpoint((), players.generator_weights(), players.state())
    prepared_graph = lru_cache(_PREPARED)(lambda index: prepare(graphs[index], recipe, device))
    end = clock() + seconds

    def is_late() -> bool:
        return clock() >= end

    for number in range(len(run.history), recipe.schedule.epochs + 1):
        if run.history and is_late():
            break
        started = clock()
        losses = _run_epoch(number, players, recipe, len(graphs), prepared_graph, on_step, is_late)
        score = validate(Model(recipe, trained=players.generator_weights()), validation, threads)
        epoch = Epoch(number, score, losses, clock() - started)
        history = (*run.history, epoch)
        better = best_epoch(history) is epoch
        best = players.generator_weights() if better else run.best
        run = _Checkpoint(history, best, players.state())
        if checkpoints is not None:
            _save_checkpoint(run, recipe, checkpoints)
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


def validate(model: Model, graphs: Sequence[LabelledGraph], threads: int = 2) -> float:
    """The mean score of a model: NMI with the known communities, else modularity (section 5.1).

    K is that of the labels; without labels, it is estimated.
    """
    find = partial(detect, model=model, method="icd", seed=model.recipe.seed, threads=threads)
    found = (
        find(graph.adjacency, n_communities=graph.n_communities).communities for graph in graphs
    )
    return float(np.mean(list(map(nmi_or_modularity, graphs, found))))


@dataclass(frozen=True, slots=True, eq=False)
class _Checkpoint:
    """A training run after an epoch: the best weights so far, and `Adversaries.state`."""

    history: History
    best: Weights
    state: Parameters


def _save_checkpoint(run: _Checkpoint, recipe: Recipe, folder: Store) -> None:
    """Replace the folder's checkpoint atomically."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in run.state.items()}
    tensors |= {f"best.{name}": torch.from_numpy(weight) for name, weight in run.best.items()}
    history = json.dumps([asdict(epoch) for epoch in run.history])
    head = {"recipe": recipe.digest(), "history": history}
    folder.put(CHECKPOINT_FILE, pa.py_buffer(save(tensors, metadata=head)))


def load_checkpoint(recipe: Recipe, folder: Store) -> _Checkpoint | None:
    """The folder's checkpoint; None if there is none.

    Raises:
        BadSettings: it belongs to another recipe, or to a longer training.
        ModelDamaged: it cannot be read.
    """
    if not folder.exists(CHECKPOINT_FILE):
        return None
    path = f"{folder.place}/{CHECKPOINT_FILE}"
    with folder.open(CHECKPOINT_FILE) as file:
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
