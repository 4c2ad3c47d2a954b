"""Make a model: learn bp's parameters, optionally train the encoder, and test it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stream_icd.core.errors import BadSettings
from stream_icd.core.imports import needs_extra
from stream_icd.core.store.store import Store
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.bp.fitted import Fit, FitOptions, OnStep
from stream_icd.learning.training.icd.epochs import Epoch, History, Training
from stream_icd.learning.training.icd.learn_edges import Effort
from stream_icd.learning.training.icd.proved_encoder import (
    EncoderProof,
    control,
    newest_graphs,
    with_edges,
    with_weights,
)
from stream_icd.learning.training.icd.taught import taught_by
from stream_icd.learning.training.yardstick import (
    DEFAULT,
    Measure,
    ModelComparison,
    compared_with_default,
    nmi_or_modularity,
)
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

_UNTRAINED, _NO_ENCODER = "the untrained encoder", "no encoder"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A model with its training and test results."""

    model: Model
    fit: Fit
    history: History  # of the encoder's training by the paper's losses; empty without one
    graphs: Sequence[LabelledGraph]  # from all of which the model was made
    n_trained: int  # graphs that the paper's losses trained the encoder on
    # The first compares it with `default`; empty without test graphs.
    test: tuple[ModelComparison, ...]
    encoder: EncoderProof | None = None  # None: none was to be learned


def train_model(
    graphs: Sequence[LabelledGraph],
    recipe: Recipe,
    *,
    checkpoints: Store | None = None,
    device: str = "cpu",
    threads: int = 2,
    on_epoch: Callable[[Epoch], None] = lambda _: None,
    on_step: OnStep = lambda *_: None,
) -> TrainedModel:
    """Learn from the first graphs and test on the last ones, by the recipe's split.

    bp's parameters are learned from labels or, without labels, from the edges alone. The encoder
    `edges` learns from the same graphs, from labels or in hindsight (`taught_by`). If the recipe
    has another encoder to train, the paper's losses do. If some graphs have labels, only those are
    used, unless the recipe is for graphs of every kind.

    Args:
        checkpoints: a folder from which an interrupted training by the paper's losses resumes.

    Raises:
        BadSettings: too few graphs for the split, or that do not overlap the test windows; none
            with an edge; or another recipe's checkpoints.
        MissingExtra: the paper's losses are to train the encoder, and torch is not installed.
    """
    used = list(graphs)
    if not recipe.every_kind:
        used = [graph for graph in graphs if graph.labels is not None] or used
    first, second, third = split(used, recipe)
    training: Training | None = None
    if recipe.trains_encoder:
        with needs_extra("train", "torch"):
            from stream_icd.learning.training.icd.train_encoder import train
        training = train(
            first,
            recipe,
            validation=second,
            checkpoints=checkpoints,
            device=device,
            threads=threads,
            progress=on_epoch,
            on_step=partial(on_step, "train the encoder"),
        )
    if recipe.every_kind:
        fit = Fit(BpParameters(search=True), "each graph", len(second), ())
    else:
        fit = fit_parameters(second, recipe.seed, threads, on_step)
    model, proof = Model(recipe, fit.parameters), None
    if training is not None:
        taught = taught_by(second, recipe.seed, threads)
        model, proof = with_weights(model, training.improved, taught, threads)
    elif recipe.learns_edges:
        model, proof = with_edges(
            model,
            # The others would be detected in hindsight for nothing.
            taught_by(newest_graphs(second), recipe.seed, threads),
            effort=Effort(threads=threads, on_step=partial(on_step, "learn the encoder")),
        )
    last = None if training is None else training.last
    history = () if training is None else training.history
    tested = _tested(model, last, second, third, threads, on_step)
    return TrainedModel(model, fit, history, used, len(first), tuple(tested), proof)


def split(
    graphs: Sequence[LabelledGraph], recipe: Recipe
) -> tuple[Sequence[LabelledGraph], Sequence[LabelledGraph], Sequence[LabelledGraph]]:
    """Split by the recipe: the first graphs train, the next validate, the last test (section 5.1).

    In order, so that what is later in time never trains what is judged on earlier graphs. Windows
    that overlap those of the test share edges with them, and are left out. Without encoder
    training, the test set may be empty for few graphs. Raises `BadSettings` if there are too few
    for each share above 0 to get one.
    """
    if not graphs:
        raise BadSettings(f"no graphs to learn from: {recipe.data or 'none were given'}")
    if not recipe.trains_encoder and len(graphs) <= 2:
        return (), graphs, ()
    shares, n = recipe.split, len(graphs)
    at, then = round(n * shares[0]), round(n * (shares[0] + shares[1]))
    first, second, tests = parts = graphs[:at], graphs[at:then], graphs[then:]
    if any(share > 0 and not part for share, part in zip(shares, parts, strict=True)):
        raise BadSettings(
            f"{n} graphs are too few to split by {shares}: each part needs at least one"
        )
    trains, learns = (
        [graph for graph in part if not _overlaps_any(graph, tests)] for part in (first, second)
    )
    if (first and not trains) or (second and not learns):
        raise BadSettings(
            "the windows to learn from overlap those to test on, and so share edges with them: "
            "give more windows, or windows that do not overlap"
        )
    return trains, learns, tests


def _overlaps_any(graph: LabelledGraph, tests: Sequence[LabelledGraph]) -> bool:
    """Whether another window of the same stream overlaps that of a graph."""
    if (own := graph.moment) is None:
        return False
    moments = (test.moment for test in tests if test.moment is not None)
    windows = (moment.window for moment in moments if moment.graph == own.graph)
    return any(
        own.window.start < window.end and window.start < own.window.end
        for window in windows
        if window != own.window  # files of one day are graphs of their own
    )


def _tested(
    model: Model,
    last: Model | None,
    learned: Sequence[LabelledGraph],
    graphs: Sequence[LabelledGraph],
    threads: int,
    on_step: OnStep,
) -> Iterator[ModelComparison]:
    """Compare with the shipped `default` as a detector works, then on each graph alone."""
    all_labelled = all(graph.labels is not None for graph in graphs)
    tests = list(_controls(model, last, "K given" if all_labelled else "each graph alone"))
    done = FitOptions(on_step=on_step).steps("test", (1 + len(tests)) * len(graphs))
    memory = any(graph.moment is not None for graph in graphs)
    yield from compared_with_default(model, learned, graphs, memory=memory, on_graph=done)
    measure: Measure = "NMI, %" if all_labelled else "modularity, %"
    for name, method, trained, reference, reference_name in tests if graphs else ():
        scores = []
        for graph in graphs:
            find = partial(detect, graph.adjacency, method=method, threads=threads)
            k = graph.n_communities if all_labelled else None
            of_models = (find(tried, n_communities=k).communities for tried in (trained, reference))
            scores.append([100 * nmi_or_modularity(graph, labels) for labels in of_models])
            done()
        yield ModelComparison.of(name, measure, reference_name, scores)


def _controls(
    model: Model, last: Model | None, how: str
) -> Iterator[tuple[str, MethodChoice, Model, Model, str]]:
    """What is compared on each graph alone: a name, by which method, a model, and its control."""
    yield f"{model.method}, {how}", "auto", model, open_model(DEFAULT).model, DEFAULT
    if model.trained is None and last is None:
        return
    if model.recipe.learns_edges:
        yield f"bp, {how}", "bp", model, replace(model, trained=None), _NO_ENCODER
    untrained = control(model)
    yield "icd", "icd", model, untrained, _UNTRAINED
    if last is not None:
        yield "icd, last epoch", "icd", last, untrained, _UNTRAINED
