"""Learn bp's parameters from graphs, with or without known communities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.bp.consecutive import newest_run, stay_of_labels
from stream_icd.learning.training.bp.fit_labelled import fit_labelled
from stream_icd.learning.training.bp.fit_stream import FEWEST, MOST_STAY, fit_stream
from stream_icd.learning.training.bp.fit_unlabelled import fit_unlabelled
from stream_icd.learning.training.bp.fitted import Fit, FitOptions, OnStep, as_good, unseen
from stream_icd.learning.training.yardstick import DEFAULT, judge
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model

_MOST_TO_LEARN_FROM = 10
"""Maximum number of graphs for the search, spread evenly; ten graphs of one kind are enough."""

_MOST_TO_COMPARE = 50
"""Maximum number of labelled graphs on which the results of the search are compared."""


def fit_parameters(
    graphs: Sequence[LabelledGraph],
    seed: int = 0,
    threads: int = 2,
    on_step: OnStep = unseen,
) -> Fit:
    """The best parameters for these graphs, for detection without K.

    Without labels, the edges decide. With labels, the parameters learned from them, or those that
    consecutive windows teach without labels, are taken only if they agree better with the labels
    than those of the shipped model `default`, by more than the standard error: a few graphs teach
    much that does not hold for others (docs/measured/labels.md).

    Consecutive windows of one graph also tell how long nodes stay in their community, and what
    memory shows that a single window does not: without labels, all parameters are learned with
    memory, from at least `fit_stream.FEWEST` windows. What windows of a stream taught, with gaps or
    without, is taken only if it saves more bits on their new edges than the parameters of
    `default`, by more than the standard error. If the windows are unrelated, the stay probability
    is 0, which turns memory off. Without consecutive windows, it is not learned.

    Graphs without edges are ignored. If some graphs have labels, those without are ignored too.
    The same seed gives the same parameters, on any number of threads. Ctrl-C ends it.

    Raises:
        BadSettings: no graph has an edge.
    """
    linked = [graph for graph in graphs if graph.adjacency.nnz]
    if not linked:
        raise BadSettings(
            "there are no graphs to learn from: give at least one graph that has edges"
        )
    windows, work = newest_run(linked), FitOptions(seed, threads, on_step)
    known = [graph for graph in linked if graph.labels is not None]
    if known:
        related = len(windows) > 1 and all(window.labels is not None for window in windows)
        return _by_labels(known, windows if related else [], work)
    return _by_edges(linked, windows, work)


def _by_labels(
    graphs: Sequence[LabelledGraph], windows: Sequence[LabelledGraph], work: FitOptions
) -> Fit:
    labelled = fit_labelled(_spread(graphs), work)
    stay = stay_of_labels(windows) if windows else None
    if stay is not None:
        labelled = _with_stay(labelled, stay, len(windows))
    fits = _default_for(labelled) | {"what the labels taught": labelled}
    if len(windows) >= FEWEST:
        learned = fit_stream(windows, work)
        if learned is not None:
            fits["what the next windows taught"] = learned
    return _first_as_good(fits, _in_time_order(graphs)[-_MOST_TO_COMPARE:], "AMI", work.seed)


def _default_for(fit: Fit) -> dict[str, Fit]:
    """The model `default` with the stay probability that was learned, and its name."""
    default = replace(open_model(DEFAULT).model.bp, stay=fit.parameters.stay)
    return {f"the model {DEFAULT}": replace(fit, parameters=default, learned_from="default")}


def _first_as_good(
    fits: Mapping[str, Fit],
    graphs: Sequence[LabelledGraph],
    by: Literal["AMI", "bits"],
    seed: int,
) -> Fit:
    """The first fit whose mean score is as high as the best one's, within the standard error.

    Graphs without a score do not count, such as the first window and those without new edges.
    """
    recipe = Recipe(name="candidate")
    judged = judge(graphs, [Model(recipe, fit.parameters) for fit in fits.values()], seed)
    rows = [[one.ami if by == "AMI" else one.bits for one in of_graph] for of_graph in judged]
    scores = np.array([row for row in rows if None not in row], np.float64).T
    if not scores.size:
        return next(iter(fits.values()))
    means = np.round(scores.mean(axis=1), 12)  # (fits, graphs) -> (fits,)
    taken = int(np.argmax(as_good(scores, int(means.argmax()))))
    compared = tuple(zip(fits, map(float, means), strict=True))
    return replace(list(fits.values())[taken], compared=compared, compared_by=by)


def _by_edges(
    graphs: Sequence[LabelledGraph], windows: Sequence[LabelledGraph], work: FitOptions
) -> Fit:
    is_stream = len(windows) >= FEWEST
    learned = fit_stream(windows, work) if is_stream else None
    if learned is not None:
        return _better_of(learned, "what the next windows taught", windows, work.seed)
    alone = fit_unlabelled([graph.adjacency for graph in _spread(graphs)], work)
    if is_stream:  # its windows are unrelated
        return _with_stay(alone, 0.0, len(windows))
    apart = _in_time_order([graph for graph in graphs if graph.moment is not None])
    if len(apart) < FEWEST:
        return alone
    return _better_of(alone, "what hidden edges taught", apart[-_MOST_TO_COMPARE:], work.seed)


def _better_of(fit: Fit, name: str, windows: Sequence[LabelledGraph], seed: int) -> Fit:
    """The fit if it saves more bits on windows than the model `default`, or else that one."""
    return _first_as_good(_default_for(fit) | {name: fit}, windows, "bits", seed)


def _spread(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """Graphs to learn from."""
    n = min(len(graphs), _MOST_TO_LEARN_FROM)
    return [graphs[index * len(graphs) // n] for index in range(n)]


def _in_time_order(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """The graphs, by the end of their windows if all are windows."""
    ends = [graph.moment.window.end for graph in graphs if graph.moment is not None]
    if len(ends) < len(graphs):
        return list(graphs)
    return [graphs[at] for at in sorted(range(len(graphs)), key=ends.__getitem__)]


def _with_stay(fit: Fit, stay: float, n_windows: int) -> Fit:
    stay = min(stay, MOST_STAY)
    return replace(fit, parameters=replace(fit.parameters, stay=stay), n_windows=n_windows)
