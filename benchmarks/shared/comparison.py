"""Run methods on the same graphs in turns, and sum up what came out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.graphs.data_sets import BenchmarkGraph
from benchmarks.shared.methods.methods import Find
from benchmarks.shared.peers.igraph_peers import build_graph, louvain_count
from stream_icd.interfaces.evaluation.method import CONVERT, Task
from stream_icd.methods.quality.agreement import accuracy, nmi
from stream_icd.methods.quality.partition import modularity

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Results:
    """One method's figures on one data set, a value for each graph, all (n_graphs,).

    nmi, accuracy: in percent, against the truth; None where there is none.
    modularity: in percent. excess: communities found less those asked for. seconds: of the run.
    cpu_seconds: of all threads of this process during the run.
    """

    modularity: Floats
    excess: Floats
    seconds: Floats
    cpu_seconds: Floats
    nmi: Floats | None
    accuracy: Floats | None

    @property
    def quality(self) -> Floats:
        """What a data set is judged by: NMI where the truth is known, modularity elsewhere."""
        return self.modularity if self.nmi is None else self.nmi


def mean_and_error(values: Floats) -> tuple[float, float]:
    """The mean and its standard error (of the sample's own spread)."""
    spread = values.std(ddof=1) if len(values) > 1 else float("nan")
    return float(values.mean()), float(spread / np.sqrt(len(values)))


def compare(graphs: Iterable[BenchmarkGraph], methods: Mapping[str, Find]) -> dict[str, Results]:
    """Every method on every graph, graph by graph, the first one in turn first.

    K is the true number of communities, or Louvain's where nobody knows it. Each method first
    runs once untimed, so that nobody pays for compilation.
    """
    rows: dict[str, list[list[float]]] = {name: [] for name in methods}
    names = list(methods)
    for number, graph in enumerate(graphs):
        n_communities = n_communities_of(graph)
        if number == 0:
            for method in methods.values():
                _measure(method, graph, n_communities, number)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            rows[name].append(_measure(methods[name], graph, n_communities, number))
    return {name: _results(np.array(found)) for name, found in rows.items()}


def _measure(find: Find, graph: BenchmarkGraph, n_communities: int, seed: int) -> list[float]:
    task = Task(graph.adjacency, n_communities, seed)
    start, cpu_start = perf_counter(), process_time()
    found = find(task)
    spent = task.stages.get(CONVERT, 0.0)  # by one thread, so the clock says the same
    seconds, cpu_seconds = perf_counter() - start - spent, process_time() - cpu_start - spent
    excess = len(np.unique(found)) - n_communities
    row = [100 * modularity(graph.adjacency, found), excess, seconds, cpu_seconds]
    if graph.truth is not None:
        row += [100 * nmi(graph.truth, found), 100 * accuracy(graph.truth, found)]
    return row


def _results(rows: Floats) -> Results:
    against_truth = list(rows[:, 4:].T) or [None, None]
    return Results(*rows[:, :4].T, *against_truth)


def n_communities_of(graph: BenchmarkGraph) -> int:
    """The number of true communities, or of those that Louvain finds."""
    if graph.truth is not None:
        return len(np.unique(graph.truth))
    return louvain_count(build_graph(graph.adjacency), seed=0)
