"""Learn bp's parameters from graphs, with or without known communities."""

from __future__ import annotations

from collections.abc import Sequence

from stream_icd.errors import BadSettings
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.training.bp.fit_labelled import fit_labelled
from stream_icd.training.bp.fit_unlabelled import fit_unlabelled
from stream_icd.training.bp.fitted import Fit, Progress, no_progress


def fit_parameters(
    graphs: Sequence[LabelledGraph],
    seed: int = 0,
    threads: int = 2,
    progress: Progress = no_progress,
) -> Fit:
    """The best parameters for these graphs, by their labels or, without labels, by their edges.

    Graphs without edges are ignored. If some graphs have labels, those without are ignored too.
    The same seed gives the same parameters, on any number of threads. Ctrl-C ends it.

    Args:
        threads: number of graphs to process at once.
        progress: called after each step with the completed and the total steps.

    Raises:
        BadSettings: no graph has an edge.
    """
    linked = [graph for graph in graphs if graph.adjacency.nnz]
    if not linked:
        raise BadSettings(
            "there are no graphs to learn from: give at least one graph that has edges"
        )
    if any(graph.labels is not None for graph in linked):
        return fit_labelled(linked, seed, threads, progress)
    return fit_unlabelled([graph.adjacency for graph in linked], seed, threads, progress)
