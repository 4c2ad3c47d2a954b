"""Run cells, one after the other: a method on a graph of a data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.lab.machine import machine, versions
from benchmarks.lab.ncut_within import ncut_within
from benchmarks.lab.packages import PACKAGES
from benchmarks.lab.results import Row, result
from benchmarks.shared.graphs.data_sets import (
    TEST_SEED,
    TRAINING_SEED,
    BenchmarkGraph,
    DataSet,
    planted_graphs,
)
from stream_icd.interfaces.evaluation.evaluate import measure
from stream_icd.interfaces.evaluation.limits import MethodProcess, MethodRun
from stream_icd.interfaces.evaluation.method import Task
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.streaming.execution.budget import Allowance


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Attributes:
        data_sets, methods: in this order.
        graphs: test graphs of each data set, from the first on.
        training: past graphs to learn from, where a data set has them.
        one_process: all methods in one process, which is quicker; else one for each method.
    """

    data_sets: Sequence[DataSet]
    methods: Sequence[str]
    graphs: int
    training: int
    limits: Allowance
    seed: int = 0
    one_process: bool = False


def cells(plan: Plan, done: set[tuple[str, int, str, int]]) -> Iterator[Row]:
    """Run every cell that is not done yet."""
    process = MethodProcess(PACKAGES, plan.limits)
    here: dict[str, str] = {"versions": json.dumps(versions()), "machine": machine()}
    try:
        for data_set in plan.data_sets:
            graphs: list[BenchmarkGraph] = []
            for name in plan.methods:
                wanted = {(data_set.name, n, name, plan.seed) for n in range(plan.graphs)}
                if wanted <= done:
                    continue
                graphs = graphs or list(islice(data_set.test_graphs(), plan.graphs))
                todo = [
                    n for n in range(len(graphs)) if (data_set.name, n, name, plan.seed) not in done
                ]
                for row in _of_method(process, plan, data_set, name, graphs, todo):
                    yield Row(**row, **here, at=datetime.now(UTC).isoformat(timespec="seconds"))
                if not plan.one_process:
                    process.end()
    finally:
        process.end()


def _of_method(
    process: MethodProcess,
    plan: Plan,
    data_set: DataSet,
    name: str,
    graphs: Sequence[BenchmarkGraph],
    todo: Sequence[int],
) -> Iterator[dict[str, Any]]:
    if not todo:
        return
    learned = process.learn(name, _history(data_set, plan.training), plan.seed)
    for number in todo:
        graph = graphs[number]
        k = n_communities(graph)
        outcome = learned
        if learned.status == "ok":
            task = Task(graph.adjacency, k, plan.seed, learned.learned)
            outcome = process.find(name, task)
        yield {
            "data_set": data_set.name,
            "graph": number,
            "method": name,
            "seed": plan.seed,
            "n_nodes": graph.adjacency.shape[0],
            "n_edges": graph.adjacency.nnz // 2,
            "k_asked": k,
            "learn_seconds": learned.seconds,
            **_measured(graph, outcome),
        }


def _measured(graph: BenchmarkGraph, outcome: MethodRun) -> Mapping[str, Any]:
    if outcome.labels is None:
        return result(outcome, None)
    measures = measure(graph.adjacency, outcome.labels, graph.truth)
    return result(outcome, measures, ncut_within(graph.adjacency, outcome.labels))


def _history(data_set: DataSet, n_graphs: int) -> list[LabelledGraph]:
    if data_set.training_graphs is None:
        return []
    past = islice(data_set.training_graphs(), n_graphs)
    return [LabelledGraph(graph.adjacency, graph.truth) for graph in past]


def n_communities(graph: BenchmarkGraph) -> int:
    """The true K, or Louvain's, as in the paper."""
    if graph.truth is not None:
        return len(np.unique(graph.truth))
    from benchmarks.shared.peers.igraph_peers import build_graph, louvain_count

    return louvain_count(build_graph(graph.adjacency), seed=0)


def small_data_sets() -> list[DataSet]:
    """Two families of small planted graphs, for `--quick`."""
    return [_small("GN, small", _small_gn), _small("LFR, small", _small_lfr)]


def _small(name: str, draw: Callable[[np.random.Generator], PlantedGraph]) -> DataSet:
    return DataSet(
        name,
        partial(planted_graphs, draw, TEST_SEED),
        partial(planted_graphs, draw, TRAINING_SEED),
        draw,
    )


def _small_gn(rng: np.random.Generator) -> PlantedGraph:
    return generate_gn(rng, 200, 10, 0.5, 0.02)


def _small_lfr(rng: np.random.Generator) -> PlantedGraph:
    return generate_lfr(rng, LfrSettings(n_nodes=300, mixing=0.3, max_degree=30, max_community=60))
