"""Make a model: learn bp's parameters, optionally train the encoder, and test it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_icd.detection import Method, detect
from stream_icd.errors import BadSettings
from stream_icd.extras import needs_extra
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.icd.recipe import Recipe
from stream_icd.quality.description_length import description_length
from stream_icd.quality.modularity import modularity
from stream_icd.quality.nmi import nmi
from stream_icd.registry.model import Model, initial_model
from stream_icd.store.store import Store
from stream_icd.training.bp.consecutive import newest_run
from stream_icd.training.bp.fit import fit_parameters
from stream_icd.training.bp.fit_scale import fit_scale
from stream_icd.training.bp.fitted import Fit
from stream_icd.training.icd.epochs import Epoch, History
from stream_icd.training.pseudo_labels import pseudo_labelled
from stream_icd.training.splitting import split_in_order

MOST_TO_LEARN_FROM = 10
"""Maximum number of graphs for learning bp's parameters, spread evenly over the training graphs;
ten graphs of one kind are enough."""

Stage = Literal["learn", "train the encoder", "test"]
OnStep = Callable[[Stage, int, int], None]
"""Called with the current task, its completed steps, and its total steps."""

Measure = Literal["NMI, %", "modularity, %", "bits saved per edge"]


@dataclass(frozen=True, slots=True)
class Score:
    """Mean score over graphs, and the standard error of that mean, in the measure's unit."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Scores of a model and its control on the test graphs.

    Attributes:
        name: the detection method of both.
        measure: the measure of the scores; higher is better.
        trained, control: the score of each; the control is untrained.
        gain: their difference, graph by graph.
    """

    name: str
    measure: Measure
    trained: Score
    control: Score
    gain: Score


@dataclass(frozen=True, slots=True)
class Graphs:
    """The graphs that a model was made from.

    Attributes:
        n_encoder, n_learned, n_tested: number of graphs for training the encoder, learning bp's
            parameters, and testing.
        n_nodes, n_edges: medians.
        n_communities: the median, if the communities are known.
    """

    n_encoder: int
    n_learned: int
    n_tested: int
    n_nodes: int
    n_edges: int
    n_communities: int | None


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A model with its training and test results.

    Attributes:
        fit: the parameters learned for bp, and the result of each choice.
        history: the epochs of the encoder's training; empty if it was not trained.
        test: results on the test graphs; empty if there are none.
    """

    model: Model
    fit: Fit
    history: History
    graphs: Graphs
    test: tuple[Comparison, ...]


def train_model(
    graphs: Sequence[LabelledGraph],
    recipe: Recipe,
    *,
    checkpoints: Store | None = None,
    device: str = "cpu",
    threads: int = 2,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
    on_step: OnStep = lambda _stage, _done, _total: None,
) -> TrainedModel:
    """Learn from the first graphs and test on the last ones, by the recipe's split.

    bp's parameters are learned from labels or, without labels, from the edges alone. The encoder
    is trained if the recipe has epochs; unlabelled graphs then get pseudo-labels, the communities
    that maximise modularity. If some graphs have labels, only those are used, unless the recipe is
    for graphs of every kind.

    Args:
        checkpoints: a folder from which an interrupted training of the encoder resumes.
        on_epoch: called after each epoch of the encoder's training.

    Raises:
        BadSettings: too few graphs for the split, none with an edge, or another recipe's
            checkpoints.
        MissingExtra: the encoder is to be trained, and torch is not installed.
    """
    used = list(graphs)
    if not recipe.every_kind:
        used = [graph for graph in graphs if graph.labels is not None] or used
    first, second, third = _split(used, recipe)
    untrained = initial_model(recipe)
    best, last = untrained, untrained
    history: History = ()
    if recipe.schedule.epochs:
        with needs_extra("train", "torch"):
            from stream_icd.training.icd.train_encoder import train
        training = train(
            [pseudo_labelled(graph, recipe.seed) for graph in first],
            recipe,
            validation=second,
            checkpoints=checkpoints,
            device=device,
            threads=threads,
            progress=on_epoch,
            on_step=lambda done, total: on_step("train the encoder", done, total),
        )
        best, last, history = training.model, training.last, training.history

    def learning(done: int, total: int) -> None:
        on_step("learn", done, total)

    if recipe.every_kind:
        fit = fit_scale(list(second), recipe.seed, threads, learning)
    else:
        linked = [graph for graph in second if graph.adjacency.nnz]
        stream = newest_run(linked)
        fit = fit_parameters(_spread(second), recipe.seed, threads, learning, stream)
    model = Model(recipe, best.weights, fit.parameters)
    tests = _tests(
        model,
        untrained,
        last if history else None,
        known=all(one.labels is not None for one in third),
    )
    return TrainedModel(
        model=model,
        fit=fit,
        history=history,
        graphs=_described(used, len(first) if history else 0, fit.n_graphs, len(third)),
        test=_compared(tests, third, threads, on_step),
    )


def _split(
    graphs: Sequence[LabelledGraph], recipe: Recipe
) -> tuple[Sequence[LabelledGraph], Sequence[LabelledGraph], Sequence[LabelledGraph]]:
    """Split by the recipe; without encoder training, the test set may be empty for few graphs."""
    if not graphs:
        raise BadSettings(f"no graphs to learn from: {recipe.data or 'none were given'}")
    if recipe.schedule.epochs or len(graphs) > 2:
        return split_in_order(graphs, recipe.split)
    return (), graphs, ()


def _spread(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """At most MOST_TO_LEARN_FROM of the graphs, evenly spread."""
    n = min(len(graphs), MOST_TO_LEARN_FROM)
    return [graphs[index * len(graphs) // n] for index in range(n)]


@dataclass(frozen=True, slots=True)
class _Test:
    """One row of the card: two models, their detection method, and the measure."""

    name: str
    measure: Measure
    trained: Model
    control: Model
    method: Method = "bp"
    given_k: bool = False


def _tests(model: Model, untrained: Model, last: Model | None, *, known: bool) -> list[_Test]:
    quality: Measure = "NMI, %" if known else "modularity, %"
    if known:
        tests = [
            _Test("bp, K unknown", quality, model, untrained),
            _Test("bp, K given", quality, model, untrained, given_k=True),
        ]
    else:
        tests = [
            _Test("bp", "bits saved per edge", model, untrained),
            _Test("bp", quality, model, untrained),
        ]
    if last is not None:
        tests += [
            _Test("icd", quality, model, untrained, "icd", known),
            _Test("icd, last epoch", quality, last, untrained, "icd", known),
        ]
    return tests


def _compared(
    tests: Sequence[_Test], graphs: Sequence[LabelledGraph], threads: int, on_step: OnStep
) -> tuple[Comparison, ...]:
    if not graphs:
        return ()
    total, rows = len(tests) * len(graphs), list[Comparison]()
    for test in tests:
        scores = []
        for graph in graphs:
            scores.append(
                [_score(graph, one, test, threads) for one in (test.trained, test.control)]
            )
            on_step("test", len(rows) * len(graphs) + len(scores), total)
        trained, control = np.array(scores).T
        parts = map(_mean, (trained, control, trained - control))
        rows.append(Comparison(test.name, test.measure, *parts))
    return tuple(rows)


def _score(graph: LabelledGraph, model: Model, test: _Test, threads: int) -> float:
    k = graph.n_communities if test.given_k else None
    adjacency = graph.adjacency
    found = detect(adjacency, model, k, method=test.method, threads=threads).communities
    if test.measure == "bits saved per edge":
        return -description_length(adjacency, found)
    if graph.labels is None:
        return 100 * modularity(adjacency, found)
    return 100 * nmi(graph.labels, found)


def _mean(values: NDArray[np.float64]) -> Score:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return Score(float(np.mean(values)), float(error))


def _described(
    graphs: Sequence[LabelledGraph], n_encoder: int, n_learned: int, n_tested: int
) -> Graphs:
    ks = [graph.n_communities for graph in graphs if graph.n_communities is not None]
    return Graphs(
        n_encoder,
        n_learned,
        n_tested,
        int(median(graph.adjacency.shape[0] for graph in graphs)),
        int(median(graph.adjacency.nnz // 2 for graph in graphs)),
        int(median(ks)) if ks else None,
    )
