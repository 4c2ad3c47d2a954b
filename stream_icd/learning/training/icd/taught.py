"""What the encoder `edges` learns from: past graphs, by their labels or in hindsight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import structlog

from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.icd.learn_edges import Effort, LearnedEdges, learn_edges
from stream_icd.learning.training.yardstick import DEFAULT
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.registry.find import open_model


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """A graph that the encoder learns from, and what its labels are: known, or found later."""

    graph: LabelledGraph
    labels: Labels  # (n,), -1 where unknown
    by: Literal["labels", "hindsight"]


def last_tenth(n_graphs: int) -> int:
    """How many of these graphs validate: the last tenth, at least one."""
    return max(1, round(n_graphs / 10))


def fit_edges(graphs: Sequence[LabelledGraph], recipe: Recipe, threads: int = 1) -> LearnedEdges:
    """Learn the weights of the recipe's encoder, which is of kind `edges`; see `learn_edges`.

    The last tenth of the graphs validates. A single graph is learned from without validation.
    For graphs without edges or labels, see `taught_by`. Raises `BadSettings` if no graph has edges,
    or none has labels or communities with strong evidence.
    """
    if not any(graph.adjacency.nnz for graph in graphs):
        raise BadSettings(f"none of the {len(graphs)} graphs has edges: give one that has")
    taught = taught_by(graphs, recipe.seed, threads)
    if not taught:
        raise BadSettings(
            f"bp finds no communities with strong evidence in {len(graphs)} graphs without labels, "
            "so there is nothing to learn from: give labels, or graphs with more edges"
        )
    pairs = [(teacher.graph.adjacency, teacher.labels) for teacher in taught]
    at = len(pairs) - last_tenth(len(pairs)) if len(pairs) > 1 else 1
    return learn_edges(pairs[:at], recipe, validation=pairs[at:], effort=Effort(threads=threads))


def taught_by(graphs: Sequence[LabelledGraph], seed: int = 0, threads: int = 1) -> list[Taught]:
    """The graphs that can teach, in their order: by their labels, or in hindsight (`in_hindsight`).

    In a graph of no stream, bp finds the communities. Graphs in which it finds none with strong
    evidence are left out, and counted in the log; so are those without edges.
    """
    linked = [graph for graph in graphs if graph.adjacency.nnz]
    windows = [graph for graph in linked if graph.labels is None and graph.moment is not None]
    later = iter(in_hindsight(windows, seed))
    taught = list[Taught]()
    for graph in linked:
        if graph.labels is not None:
            taught.append(Taught(graph, graph.labels, "labels"))
            continue
        labels = _found_alone(graph, seed, threads) if graph.moment is None else next(later)
        if labels is not None:
            taught.append(Taught(graph, labels, "hindsight"))
    if len(taught) < len(linked):
        structlog.get_logger().warning(
            "graphs without strong evidence are not learned from",
            graphs=len(linked) - len(taught),
            of=len(linked),
        )
    return taught


def _found_alone(graph: LabelledGraph, seed: int, threads: int) -> Labels | None:
    labels = find_communities(
        graph.adjacency, BpParameters(search=True), seed=seed, threads=threads
    )
    return labels if evidence_for(graph.adjacency, labels).strength == "strong" else None


def in_hindsight(windows: Sequence[LabelledGraph], seed: int = 0) -> list[Labels | None]:
    """The communities of each window, `(n,)`; None if the evidence for them is not strong.

    They are found with the windows before and after each, which show more than the window alone. So
    the encoder learns to see in one window what otherwise takes several. The shipped model
    `default` finds them, so that what a champion believes is not taught to the next one.

    Args:
        windows: with moments; those of a graph in time order. Their labels are not used.
    """
    of_windows = list[Labels | None]([None] * len(windows))
    for run in _runs(windows):
        snapshots = [windows[place].snapshot() for place in run]
        ks = [snapshot.n_communities for snapshot in snapshots]
        model = open_model(DEFAULT).model
        smoothed = detect_smoothed(snapshots, model, n_communities=ks, seed=seed)
        for place, remembered in zip(run, smoothed, strict=True):
            labels = remembered.communities
            if evidence_for(windows[place].adjacency, labels).strength == "strong":
                of_windows[place] = labels
    return of_windows


def _runs(windows: Sequence[LabelledGraph]) -> Iterator[list[int]]:
    """The places of the windows of each graph, each after the one before; if not, another run."""
    runs, ends = dict[str, list[int]](), dict[str, datetime]()
    for place, window in enumerate(windows):
        assert window.moment is not None
        if not window.adjacency.nnz:
            continue
        graph, end = window.moment.graph, window.moment.window.end
        if graph in runs and ends[graph] >= end:
            yield runs.pop(graph)
        runs.setdefault(graph, []).append(place)
        ends[graph] = end
    yield from runs.values()
