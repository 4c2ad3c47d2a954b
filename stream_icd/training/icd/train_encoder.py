"""Train the paper's encoder on labelled graphs (paper, algorithm 3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch

from stream_icd.detection.detect import detect
from stream_icd.errors import BadSettings
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.icd.recipe import Recipe
from stream_icd.model import Model
from stream_icd.store.store import Store
from stream_icd.training.icd.adversaries import Adversaries
from stream_icd.training.icd.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from stream_icd.training.icd.epochs import Epoch, History, best_epoch
from stream_icd.training.icd.training_graph import TrainingGraph, prepare
from stream_icd.training.yardstick import nmi_or_modularity

PREPARED = 64
"""How many graphs are kept as tensors; each takes about 100 bytes per edge."""


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A finished training: the model after the best epoch, and after the last one, for reports."""

    model: Model
    last: Model
    history: History


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
    clock: Callable[[], float] = time.perf_counter,
) -> Training:
    """Train an encoder, and keep the epoch with the best score on the validation graphs.

    The same recipe and graphs give the same model on a CPU.

    Args:
        graphs: labelled graphs to learn from; each step draws one, with replacement.
        validation: graphs for the score after each epoch; see `validate`.
        checkpoints: folder for a checkpoint after each epoch. If it holds one of this recipe, the
            run continues from there.
        device: "cpu" or "cuda".
        progress: called after each epoch, also after epoch 0, the untrained model.
        on_step: called after each step with the number of steps done, including those before a
            restart, and the total.
        clock: monotonic, in seconds.

    Raises:
        BadInput: a training graph has no labels.
        BadSettings: no graphs, no such device, or the checkpoint is of another recipe.
        ModelDamaged: the checkpoint cannot be read.
    """
    if not graphs or not validation:
        raise BadSettings(
            f"training needs graphs to learn from and to validate on; "
            f"got {len(graphs)} and {len(validation)}"
        )
    if device != "cpu" and not torch.cuda.is_available():
        raise BadSettings(f"torch has no {device!r} on this machine; give device='cpu'")
    players = Adversaries(recipe, device)
    run = _resume(players, recipe, checkpoints)
    prepared_graph = lru_cache(PREPARED)(lambda index: prepare(graphs[index], recipe, device))

    for number in range(len(run.history), recipe.schedule.epochs + 1):
        started = clock()
        losses = _run_epoch(number, players, recipe, len(graphs), prepared_graph, on_step)
        score = validate(Model(recipe, players.generator_weights()), validation, threads)
        epoch = Epoch(number, score, losses, clock() - started)
        history = (*run.history, epoch)
        better = best_epoch(history) is epoch
        best = players.generator_weights() if better else run.best
        run = Checkpoint(history, best, players.state())
        if checkpoints is not None:
            save_checkpoint(run, recipe, checkpoints)
        progress(epoch)
    last = Model(recipe, players.generator_weights())
    return Training(Model(recipe, run.best), last, run.history)


def _resume(players: Adversaries, recipe: Recipe, checkpoints: Store | None) -> Checkpoint:
    """The run so far: from the folder of checkpoints, or a run without any epoch."""
    kept = None if checkpoints is None else load_checkpoint(recipe, checkpoints)
    if kept is None:
        return Checkpoint((), players.generator_weights(), players.state())
    players.restore(kept.state)
    return kept


def _run_epoch(
    number: int,
    players: Adversaries,
    recipe: Recipe,
    n_graphs: int,
    prepared_graph: Callable[[int], TrainingGraph],
    on_step: Callable[[int, int], None],
) -> dict[str, float]:
    """Draw p graphs with replacement, update m times on each, and return the mean of each loss."""
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
