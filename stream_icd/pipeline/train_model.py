"""Making a model whole: train, learn the refined numbers, test, and write it all down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_icd.extras import needs_extra
from stream_icd.icd.detection import Mode, detect_canonical
from stream_icd.icd.history import Epoch, History, best_epoch
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.model import Model, initial_model, save_model
from stream_icd.icd.recipe import Recipe
from stream_icd.icd.refined.fit import fit_parameters
from stream_icd.icd.splitting import split_in_order
from stream_icd.icd.teacher import taught
from stream_icd.icd.training_plot import draw_training
from stream_icd.quality.modularity import modularity
from stream_icd.quality.nmi import nmi


@dataclass(frozen=True, slots=True)
class Score:
    """Mean score over graphs, and the standard error of that mean; both in 0..1."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.error:.2f}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A model beside its untrained control on the test graphs.

    Attributes:
        name: how the two detected.
        trained, control: the score of each.
        gain: their difference, graph by graph.
    """

    name: str
    trained: Score
    control: Score
    gain: Score


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A model, and what is known of it.

    Attributes:
        measure: what the scores are: NMI with the truth, or modularity where there is none.
        n_graphs: how many graphs trained, validated and tested.
        test: on the test graphs: refined; faithful; faithful after the last epoch, kept or not.
    """

    model: Model
    history: History
    measure: str
    n_graphs: tuple[int, int, int]
    test: tuple[Comparison, ...]


def train_model(
    graphs: Sequence[LabelledGraph],
    recipe: Recipe,
    *,
    checkpoints: Path | None = None,
    device: str = "cpu",
    threads: int = 2,
    progress: Callable[[Epoch], None] = lambda _: None,
) -> TrainedModel:
    """Train on the first graphs, choose on the next, report on the last (the recipe's split).

    Graphs without labels learn from a teacher: the communities that maximise modularity.

    Args:
        checkpoints: a folder from which a killed training goes on.
        progress: called after each epoch.

    Raises:
        BadSettings: too few graphs for the split, or another recipe's checkpoints.
        MissingExtra: torch is not installed; the message says how.
    """
    with needs_extra("train", "torch"):
        from stream_icd.icd.training import train

    first, second, third = split_in_order(graphs, recipe.split)
    known = graphs[0].labels is not None
    training = train(
        [taught(graph, recipe.seed) for graph in first],
        recipe,
        validation=second,
        folder=checkpoints,
        device=device,
        threads=threads,
        progress=progress,
    )
    refined = fit_parameters(second, recipe.seed, threads).parameters
    model = Model(recipe, training.model.weights, refined)
    control = Model(recipe, initial_model(recipe).weights)

    def compared(name: str, one: Model, mode: Mode) -> Comparison:
        trained, untrained = (
            np.array([_score(graph, each, mode, threads) for graph in third])
            for each in (one, control)
        )
        return Comparison(name, _mean(trained), _mean(untrained), _mean(trained - untrained))

    return TrainedModel(
        model=model,
        history=training.history,
        measure="NMI" if known else "modularity",
        n_graphs=(len(first), len(second), len(third)),
        test=(
            compared("refined", model, "refined"),
            compared("faithful", model, "faithful"),
            compared("faithful, last epoch", training.last, "faithful"),
        ),
    )


def write_model(trained: TrainedModel, folder: Path) -> None:
    """The model's folder: weights, recipe, `training.png` and `card.md`.

    Raises:
        BadSettings: the folder holds a model already.
    """
    save_model(trained.model, folder)
    draw_training(trained.history, folder / "training.png", trained.model.recipe.name)
    (folder / "card.md").write_text(card(trained), encoding="utf-8")


def card(trained: TrainedModel) -> str:
    """What a user should know of a model before relying on it, as Markdown."""
    recipe, refined = trained.model.recipe, trained.model.refined
    best = best_epoch(trained.history)
    rows = "\n".join(
        f"| {row.name} | {row.trained} | {row.control} | {row.gain} |" for row in trained.test
    )
    kept = (
        "training added nothing on the validation graphs: the weights are the untrained ones"
        if best.number == 0
        else f"kept the weights of epoch {best.number} of {trained.history[-1].number}"
    )
    n_train, n_validation, n_test = trained.n_graphs
    widths = "-".join(map(str, recipe.encoder.widths))
    mixing = "none: modularity decides" if refined.mixing is None else f"{refined.mixing:.3f}"
    return f"""# {recipe.name}

- Data: {recipe.data or "not said"}; {n_train} graphs to train on, the next {n_validation} to choose
  on, the last {n_test} to test on.
- Encoder: {recipe.encoder.kind}, widths {widths}, {recipe.variant};
  {kept}.
- Refined mode: resolution {refined.resolution:.3g}, mixing {mixing}.

{trained.measure} on the test graphs, percent, mean ± standard error:

| mode | trained | untrained control | gain |
|---|---|---|---|
{rows}

Limits: what refined mode learned holds for graphs like these. On graphs that mix more, or whose
communities are of other sizes, fit a model of their own; where nobody knows the communities,
modularity decides, with its resolution limit: communities much smaller than √E edges are joined.

To make it again: `stream-icd train recipe.toml --out FOLDER`, with the `recipe.toml` beside this
card.
"""


def _score(graph: LabelledGraph, model: Model, mode: Mode, threads: int) -> float:
    k = graph.n_communities
    found = detect_canonical(graph.adjacency, model, k, mode=mode, threads=threads).communities
    if graph.labels is None:
        return modularity(graph.adjacency, found)
    return nmi(graph.labels, found)


def _mean(values: NDArray[np.float64]) -> Score:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return Score(float(np.mean(values)), float(error))
