"""Learn bp's parameters from graphs, with or without known communities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.core.errors import BadSettings
from stream_icd.core.node_ids import common_type, places
from stream_icd.core.times import missed_windows
from stream_icd.learning.training.bp.fit_unlabelled import (
    FEWEST,
    bounded_stay,
    fit_stream,
    fit_unlabelled,
)
from stream_icd.learning.training.bp.fitted import (
    SIZE_SPREADS,
    Fit,
    FitOptions,
    OnStep,
    Tried,
    as_good,
    candidate,
)
from stream_icd.learning.training.yardstick import DEFAULT, judge
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.graphs.weights import EXPONENT, comparable
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import accuracy, ami, of_known
from stream_icd.registry.find import open_model

_MOST_TO_LEARN_FROM = 10
"""Maximum number of graphs for the search, spread evenly; ten graphs of one kind are enough."""

_MOST_TO_COMPARE = 50
"""Maximum number of labelled graphs on which the results of the search are compared."""

_MOST_WINDOWS = 5
"""Maximum number of windows to learn from with memory; more hardly change the parameters."""

_Labelled = Sequence[tuple[NDArray[np.int32], LabelledGraph]]

_RESOLUTIONS = tuple(2.0 ** (half_octave / 2) for half_octave in range(-2, 11))
"""Candidate resolutions: 0.5 to 32 in steps of √2. Finer ones gained at most 0.02 NMI points on LFR
graphs of 5,000 nodes, and lost 0.2 to 0.6 on those of 2,000."""

_OTHER_EXPONENTS = (0.0, 1.0)
"""Candidates besides `EXPONENT`: ignore the weights, and keep their proportions."""


def fit_parameters(
    graphs: Sequence[LabelledGraph],
    seed: int = 0,
    threads: int = 2,
    on_step: OnStep = lambda *_: None,
) -> Fit:
    """The best parameters for these graphs, for detection without K.

    Without labels, the edges decide. With labels, the parameters learned from them, or those that
    consecutive windows teach without labels, are taken only if they agree better with the labels
    than those of the shipped model `default`, by more than the standard error: a few graphs teach
    much that does not hold for others (docs/measured/labels.md).

    Consecutive windows of one graph also tell how long nodes stay in their community, and what
    memory shows that a single window does not: without labels, all parameters are learned with
    memory, from at least `FEWEST` windows. What windows of a stream taught, with gaps or
    without, is taken only if it saves more bits on their new edges than the parameters of
    `default`, by more than the standard error. If the windows are unrelated, the stay probability
    is 0, which turns memory off. Without consecutive windows, it is not learned.

    Graphs without edges are ignored. If some graphs have labels, those without are ignored too.
    The same seed gives the same parameters, on any number of threads. Ctrl-C ends it. Raises
    `BadSettings` if no graph has an edge.
    """
    linked = [graph for graph in graphs if graph.adjacency.nnz]
    if not linked:
        raise BadSettings(
            "there are no graphs to learn from: give at least one graph that has edges"
        )
    windows, work = _newest_run(linked), FitOptions(seed, threads, on_step)
    labelled = [graph for graph in linked if graph.labels is not None]
    if labelled:
        related = len(windows) > 1 and all(window.labels is not None for window in windows)
        return _by_labels(labelled, windows if related else [], work)
    return _by_edges(linked, windows, work)


def _by_labels(
    graphs: Sequence[LabelledGraph], windows: Sequence[LabelledGraph], work: FitOptions
) -> Fit:
    labelled = fit_labelled(_spread(graphs), work)
    stay = _stay_of_labels(windows) if windows else None
    if stay is not None:
        labelled = _with_stay(labelled, stay, len(windows))
    # The default comes first: it is taken if the others are only as good.
    fits = _default_for(labelled) | {"what the labels taught": labelled}
    if len(windows) >= FEWEST:
        learned = fit_stream(windows, work)
        if learned is not None:
            fits["what the next windows taught"] = learned
    return _first_as_good(fits, _in_time_order(graphs)[-_MOST_TO_COMPARE:], "AMI", work.seed)


def _default_for(fit: Fit) -> dict[str, Fit]:
    default = replace(open_model(DEFAULT).model.bp, stay=fit.parameters.stay)
    return {f"the model {DEFAULT}": replace(fit, parameters=default, learned_from="default")}


def _first_as_good(
    fits: Mapping[str, Fit], graphs: Sequence[LabelledGraph], by: Literal["AMI", "bits"], seed: int
) -> Fit:
    """The first fit whose mean score is as high as the best one's, within the standard error.

    Graphs without a score do not count, such as the first window and those without new edges.
    """
    recipe = Recipe(name="candidate")
    judged = judge(graphs, [Model(recipe, fit.parameters) for fit in fits.values()], seed)
    rows = [[fit.ami if by == "AMI" else fit.bits for fit in of_graph] for of_graph in judged]
    scores = np.array([row for row in rows if None not in row], np.float64).T
    if not scores.size:
        return next(iter(fits.values()))
    means = np.round(scores.mean(axis=1), 12)  # (fits, graphs) -> (fits,)
    # The first of those as good as the best.
    chosen = int(np.argmax(as_good(scores, int(means.argmax()))))
    compared = tuple(zip(fits, map(float, means), strict=True))
    return replace(list(fits.values())[chosen], compared=compared, compared_by=by)


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
    return _first_as_good(_default_for(fit) | {name: fit}, windows, "bits", seed)


def _spread(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    n = min(len(graphs), _MOST_TO_LEARN_FROM)
    return [graphs[index * len(graphs) // n] for index in range(n)]


def _in_time_order(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """The graphs, by the end of their windows if all are windows."""
    ends = [graph.moment.window.end for graph in graphs if graph.moment is not None]
    if len(ends) < len(graphs):
        return list(graphs)
    return [graphs[at] for at in sorted(range(len(graphs)), key=ends.__getitem__)]


def _with_stay(fit: Fit, stay: float, n_windows: int) -> Fit:
    parameters = replace(fit.parameters, stay=bounded_stay(stay))
    return replace(fit, parameters=parameters, n_windows=n_windows)


def _newest_run(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """The last consecutive windows of one graph, in order, at most `_MOST_WINDOWS`.

    Windows that overlap share edges, and are not consecutive. Of several graphs, the one with most
    such windows; of equal ones, the first by name. Graphs without a moment are ignored.
    """
    by_graph = defaultdict(list)
    for graph in graphs:
        if graph.moment is not None:
            by_graph[graph.moment.graph].append(graph)
    runs = [_run(by_graph[name]) for name in sorted(by_graph)]
    return max(runs, key=len, default=[])


def _run(graphs: list[LabelledGraph]) -> list[LabelledGraph]:
    ordered = sorted(graphs, key=lambda graph: _moment(graph).window.end)
    run = ordered[-1:]
    for graph in reversed(ordered[:-1]):
        earlier, later = _moment(graph), _moment(run[0])
        if (
            len(run) == _MOST_WINDOWS
            or later.window.start < earlier.window.end
            or missed_windows(earlier.window, later.window)
            or common_type(earlier.nodes, later.nodes) is None
        ):
            break
        run.insert(0, graph)
    return run


def _stay_of_labels(windows: Sequence[LabelledGraph]) -> float | None:
    """Mean share of the nodes that stay in their known community, beyond chance.

    Communities may be numbered anew in each window: they are matched so that most nodes stay.
    Chance is the share that stays if the nodes exchange labels. None if no node is labelled in two
    consecutive windows that both have it.

    windows: consecutive, with moments and labels; at least two.
    """
    stays = [_stay(earlier, later) for earlier, later in pairwise(windows)]
    of_labelled = [stay for stay in stays if stay is not None]
    if not of_labelled:
        return None
    return float(np.mean(of_labelled))


def _stay(earlier: LabelledGraph, later: LabelledGraph) -> float | None:
    assert earlier.labels is not None
    assert later.labels is not None
    place = places(_moment(later).nodes, _moment(earlier).nodes)
    if not (place >= 0).any():
        return 0.0
    before, after = earlier.labels[place[place >= 0]], later.labels[place >= 0]
    in_both = (before >= 0) & (after >= 0)
    if not in_both.any():
        return None
    before, after = before[in_both], after[in_both]
    stayed = accuracy(before, after)
    by_chance = accuracy(np.random.default_rng(0).permutation(before), after)
    return max((stayed - by_chance) / max(1 - by_chance, 1e-9), 0.0)


def _moment(graph: LabelledGraph) -> Moment:
    assert graph.moment is not None
    return graph.moment


def fit_labelled(graphs: Sequence[LabelledGraph], work: FitOptions = FitOptions()) -> Fit:
    """The parameters with the best mean AMI of `find_communities` on these graphs.

    K is not given, as in detection: the best parameters with K join many communities without it.
    AMI is adjusted for chance, so splitting communities does not raise it, as it does NMI.

    The mixing is that of the labels. The search covers resolution, size spread, and whether to use
    belief propagation. The score of a resolution includes its neighbours on both sides, since a
    peak that they do not share is chance. Of the resolutions as good as the best, within the
    standard error of the difference, the coarsest is selected (Breiman, Friedman, Olshen and
    Stone, 1984): the finest ones fail first on graphs of other sizes. If the weights differ, other
    exponents are tried last. Graphs without labels are ignored; at least one must have labels.
    The search needs 52 to 54 runs of `find_communities` per graph.
    """
    labelled = [(g.labels, g) for g in graphs if g.labels is not None]
    weighted = any(np.ptp(graph.adjacency.data) for _, graph in labelled)
    mixing = _mean_mixing(labelled, EXPONENT)
    families = [[candidate(r, spread, mixing) for r in _RESOLUTIONS] for spread in SIZE_SPREADS]
    choices = [choice for family in families for choice in family]
    n_runs = len(choices) + (1 + len(_OTHER_EXPONENTS)) * weighted
    done = work.steps("learn from labels", n_runs * len(labelled))

    def scores_of(choices: Sequence[BpParameters]) -> Floats:
        """AMI of each choice on each graph, (choices, graphs)."""
        runs = [(*graph, choice) for choice in choices for graph in labelled]
        amis = work.each(lambda run: _ami(*run, work.seed), runs, lambda _: done())
        return np.reshape(amis, (len(choices), len(labelled)))

    scores = _smoothed(scores_of(choices).reshape(len(families), -1, len(labelled)))
    best_family, best = np.unravel_index(np.argmax(_mean(scores)), scores.shape[:2])
    family, of_family = families[int(best_family)], scores[int(best_family)]
    # The first of those as good as the best, which is the coarsest.
    chosen = int(np.argmax(as_good(of_family, int(best))))
    return Fit(
        _with_best_exponent(family[chosen], scores_of, labelled) if weighted else family[chosen],
        "labels",
        len(labelled),
        tuple(
            Tried(parameters, ami=float(mean))
            for parameters, mean in zip(family, _mean(of_family), strict=True)
        ),
    )


def _with_best_exponent(
    parameters: BpParameters,
    scores_of: Callable[[Sequence[BpParameters]], Floats],
    labelled: _Labelled,
) -> BpParameters:
    """Change the exponent of the weights if that is better by more than the standard error."""
    candidates = [parameters]
    for exponent in _OTHER_EXPONENTS:
        mixing = None if parameters.mixing is None else _mean_mixing(labelled, exponent)
        candidates.append(replace(parameters, weight_exponent=exponent, mixing=mixing))
    scores = scores_of(candidates)
    best = int(np.argmax(_mean(scores)))
    return candidates[0 if as_good(scores, best)[0] else best]


def _smoothed(scores: Floats) -> Floats:
    """Average each score (families, resolutions, graphs) with its neighbours; ends count twice."""
    padded = np.pad(scores, ((0, 0), (1, 1), (0, 0)), mode="edge")
    smoothed: Floats = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    return smoothed


def _mean(scores: Floats) -> Floats:
    # Rounded, so that equal scores stay equal whatever the order of a sum.
    means: Floats = np.round(scores.mean(axis=-1), 12)
    return means


def _mean_mixing(labelled: _Labelled, exponent: float) -> float:
    shares = [
        mixing_of(comparable(graph.adjacency, exponent), labels) for labels, graph in labelled
    ]
    return bounded_mixing(float(np.mean(shares)))


def _ami(
    labels: NDArray[np.int32], graph: LabelledGraph, parameters: BpParameters, seed: int
) -> float:
    return ami(*of_known(labels, find_communities(graph.adjacency, parameters, seed=seed)))
