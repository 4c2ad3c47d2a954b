"""What learning from labelled graphs is worth: the encoder `edges`, trained and not, beside others.

    python -m benchmarks.learned
    python -m benchmarks.learned --labelled FOLDER --only years

Each planted set is learned on its training graphs and shown on test graphs, which nothing was
chosen on. With `--labelled`, the class years of four colleges: each is tested after learning on the
other three. K is given to K-means; bp gets it or not, on the graph as it is and as the encoder
weights it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy.sparse import csr_array

from benchmarks.shared.comparison import mean_and_error
from benchmarks.shared.graphs.data_sets import BenchmarkGraph, data_sets
from benchmarks.shared.graphs.known_graphs import known_graphs
from stream_icd.core.arrays import Labels, n_distinct
from stream_icd.learning.training.icd.learn_edges import (
    LabelledAdjacency,
    learn_by_turns,
    learn_edges,
)
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.encoder.contract import Weights, encoder, initial_weights
from stream_icd.methods.icd.encoder.edges import Edges
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.recipe import EDGES, UNTRAINED, Recipe
from stream_icd.methods.quality.agreement import ami, nmi, of_known
from stream_icd.methods.weighing import Weighing

HOPS = Recipe(name="hops", encoder=UNTRAINED)
LEARNED = Recipe(name="edges", encoder=EDGES)
BY_SEARCH = BpParameters(search=True)

PLANTED = ("L(f,.6)", "L(n,.6)", "L(f,.3)", "GN.3")
SCHOOLS = ("Caltech36", "Reed98", "Rice31", "Smith60")
YEARS = "years"


def main() -> None:
    """Parse the command line, learn, measure, print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--labelled", type=Path, help="folder of fb100_*: edges/, labels/")
    parser.add_argument("--only", nargs="+", choices=(*PLANTED, YEARS))
    parser.add_argument("--train", type=int, default=8, help="graphs to learn from")
    parser.add_argument("--graphs", type=int, default=8, help="graphs to test on")
    parser.add_argument("--seeds", type=int, default=1, help="trainings")
    options = parser.parse_args()
    for name in options.only or (*PLANTED, *([YEARS] if options.labelled else [])):
        table = Table()
        if name == YEARS:
            _measure_years(options.labelled, options.seeds, table)
        else:
            _measure_planted(name, options, table)
        Console().print(f"\n{name}\n{table}", markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Table:
    """Percent and processor milliseconds of each method, over graphs and seeds."""

    rows: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)

    def add(self, method: str, truth: Labels, found: Labels, started: float) -> None:
        """Add one graph, whose communities were found since `started`, a processor time."""
        spent = 1000 * (time.process_time() - started)
        labels, found = of_known(truth, found)
        more = n_distinct(found) - n_distinct(labels)
        row = (100 * nmi(labels, found), 100 * ami(labels, found), more, spent)
        self.rows.setdefault(method, []).append(row)

    def __str__(self) -> str:
        """The table as markdown."""
        lines = ["| method | NMI | AMI | K − true | CPU ms |", "| --- | --- | --- | --- | --- |"]
        for method, rows in self.rows.items():
            columns = (_with_error(column) for column in np.array(rows).T[:2])
            more, spent = np.mean([row[2] for row in rows]), np.median([row[3] for row in rows])
            lines.append(f"| {method} | {' | '.join(columns)} | {more:+.1f} | {spent:.0f} |")
        return "\n".join(lines)


def _with_error(values: np.ndarray) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.2f} ± {error:.2f}"


def _measure_planted(name: str, options: argparse.Namespace, table: Table) -> None:
    data_set = data_sets(Path())[name]
    assert data_set.training_graphs is not None
    past = list(map(_known, islice(data_set.training_graphs(), options.train + 2)))
    tests = list(map(_known, islice(data_set.test_graphs(), options.graphs)))
    _untrained(tests, table)
    for seed in range(options.seeds):
        _learned(past[:-2], past[-2:], tests, seed, table)


def _measure_years(folder: Path, seeds: int, table: Table) -> None:
    schools = [_school(folder, name) for name in SCHOOLS]
    _untrained(schools, table)
    for seed in range(seeds):
        for left_out, school in enumerate(schools):
            others = [other for number, other in enumerate(schools) if number != left_out]
            _learned(others, (), [school], seed, table)


def _known(graph: BenchmarkGraph) -> LabelledAdjacency:
    assert graph.truth is not None
    return graph.adjacency, graph.truth


def _school(folder: Path, name: str) -> LabelledAdjacency:
    """A college; the year is unknown for students that give none."""
    (college,) = known_graphs(folder.parent)[f"fb100_{name}"].load()
    _dormitories, years = college.classifications
    return college.adjacency, years.astype(np.int32)


def _untrained(tests: Sequence[LabelledAdjacency], table: Table) -> None:
    weights = initial_weights(HOPS)
    for adjacency, truth in tests:
        started = time.process_time()
        features = model_features(adjacency, HOPS)
        embedding = encoder(HOPS.encoder).embed(weights, features, adjacency)
        table.add("hops, K-means, K given", truth, cluster(embedding, _k(truth)), started)
        started = time.process_time()
        table.add("bp, K unknown", truth, find_communities(adjacency, BY_SEARCH), started)
        started = time.process_time()
        table.add("bp, K given", truth, find_communities(adjacency, BY_SEARCH, _k(truth)), started)


def _learned(
    past: Sequence[LabelledAdjacency],
    validation: Sequence[LabelledAdjacency],
    tests: Sequence[LabelledAdjacency],
    seed: int,
    table: Table,
) -> None:
    started = time.process_time()
    recipe = LEARNED.changed(seed=seed)
    if validation:
        learned = learn_edges(past, recipe, validation=validation)
    else:
        learned, _ = learn_by_turns(past, recipe)
    losses = ", ".join(f"{one.after:.4f}" for one in learned.rounds)
    spent = time.process_time() - started
    Console().print(f"learned in {spent:.0f} CPU s; cross entropy by round: {losses}")
    for adjacency, truth in tests:
        _test(adjacency, truth, learned.weights, table)


def _test(adjacency: csr_array, truth: Labels, weights: Weights, table: Table) -> None:
    started = time.process_time()
    graph = comparable(adjacency)
    features = model_features(graph, LEARNED)
    weighed = Edges(EDGES).weigh(weights, features, graph)
    parameters = Weighing(LEARNED, weights).parameters
    encoded = time.process_time()
    embedding = Edges(EDGES).embed_weighed(weighed, features, graph)
    table.add("edges, K-means, K given", truth, cluster(embedding, _k(truth)), started)
    for known, k in (("unknown", None), ("given", _k(truth))):
        started += time.process_time() - encoded  # of the ways before, which this one does not need
        encoded = time.process_time()
        found = find_communities(weighed.adjacency, parameters, k)
        table.add(f"edges, bp, K {known}", truth, found, started)


def _k(truth: Labels) -> int:
    return n_distinct(truth[truth >= 0])


if __name__ == "__main__":
    main()
