"""Learn bp's parameters from graphs, with or without known communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_icd.errors import BadSettings
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.training.bp.consecutive import newest_run, stay_of_labels
from stream_icd.training.bp.fit_labelled import fit_labelled
from stream_icd.training.bp.fit_stream import FEWEST, MOST_STAY, fit_stream
from stream_icd.training.bp.fit_unlabelled import fit_unlabelled
from stream_icd.training.bp.fitted import Fit, Progress, no_progress


def fit_parameters(
    graphs: Sequence[LabelledGraph],
    seed: int = 0,
    threads: int = 2,
    progress: Progress = no_progress,
    stream: Sequence[LabelledGraph] | None = None,
    k_given: bool = True,
) -> Fit:
    """The best parameters for these graphs, by their labels or, without labels, by their edges.

    Consecutive windows of one graph also tell how long nodes stay in their community, and what
    memory shows that a single window does not: without labels, all parameters are learned with
    memory, from at least `fit_stream.FEWEST` windows. If the windows are unrelated, the stay
    probability is 0, which turns memory off. Without consecutive windows, it is not learned.

    Graphs without edges are ignored. If some graphs have labels, those without are ignored too.
    The same seed gives the same parameters, on any number of threads. Ctrl-C ends it.

    Args:
        threads: number of graphs or choices to process at once.
        progress: called after each step with the completed and the total steps.
        stream: consecutive windows of one graph, `consecutive.newest_run`; None: those among the
            graphs.
        k_given: with labels, learn for detection with K; see `fit_labelled`.

    Raises:
        BadSettings: no graph has an edge.
    """
    linked = [graph for graph in graphs if graph.adjacency.nnz]
    if not linked:
        raise BadSettings(
            "there are no graphs to learn from: give at least one graph that has edges"
        )
    windows = newest_run(linked) if stream is None else list(stream)
    if any(graph.labels is not None for graph in linked):
        fit = fit_labelled(linked, seed, threads, progress, k_given=k_given)
        labelled = len(windows) > 1 and all(one.labels is not None for one in windows)
        return _with_stay(fit, stay_of_labels(windows), len(windows)) if labelled else fit
    if len(windows) >= FEWEST:
        learned = fit_stream(windows, seed, threads, progress)
        if learned is not None:
            return learned
    alone = fit_unlabelled([graph.adjacency for graph in linked], seed, threads, progress)
    return _with_stay(alone, 0.0, len(windows)) if len(windows) >= FEWEST else alone


def _with_stay(fit: Fit, stay: float, n_windows: int) -> Fit:
    stay = min(stay, MOST_STAY)
    return replace(fit, parameters=replace(fit.parameters, stay=stay), n_windows=n_windows)
