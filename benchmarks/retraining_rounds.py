"""How much history the encoder `edges` needs, and what it learns without labels.

    python -m benchmarks.retraining_rounds curves
    python -m benchmarks.retraining_rounds hindsight

LFR graphs of 5,000 nodes, mixing .6. Curves: labelled windows whose communities are independent.
Hindsight: windows of a stream in which 2 % of the nodes move, without labels. Single graphs of
other seeds show what was learned: AMI with their communities. Each part prints a table of
docs/measured/retraining.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from scipy.sparse import csr_array

from benchmarks.shared.comparison import mean_and_error
from stream_icd.core.arrays import Labels, n_distinct
from stream_icd.learning.training.icd.learn_edges import LabelledAdjacency, learn_edges
from stream_icd.learning.training.icd.proved_encoder import quarter
from stream_icd.learning.training.icd.taught import in_hindsight
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.recipe import EDGES, UNTRAINED, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import planted_snapshots
from stream_icd.streaming.detection.detect import detect

LAW = LfrSettings(5000, mixing=0.6)
RECIPE = Recipe(name="edges", encoder=EDGES)
LEARN_SEED, TEST_SEED, STREAM_SEED = 41_000, 42_000, 43_000


def main() -> None:
    """Learn from more or less, and print what it is worth on the test graphs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", choices=("curves", "hindsight"))
    parser.add_argument("--graphs", type=int, default=6, help="graphs to test on")
    parser.add_argument("--windows", type=int, default=20, help="most windows to learn from")
    parser.add_argument("--seed", type=int, default=0, help="of the streams and the learning")
    options = parser.parse_args()
    graphs = _graphs(TEST_SEED + 100 * options.seed)
    tests = [(one.adjacency, one.labels) for one in islice(graphs, options.graphs)]
    print("| learned from | K-means, K given | bp, K unknown | CPU s |\n| --- | --- | --- | --- |")
    print(_row("nothing: hops, bp of `default`", _untrained(tests), 0))
    cases = _curves(options) if options.part == "curves" else _in_hindsight(options)
    for name, known in cases:
        started = time.process_time()
        at = len(known) - quarter(len(known)) if len(known) > 1 else 1
        recipe = RECIPE.changed(seed=options.seed)
        learned = learn_edges(known[:at], recipe, validation=known[at:])
        spent = time.process_time() - started
        print(_row(name, _tested(learned.weights, tests), spent), flush=True)


def _graphs(seed: int) -> Iterator[LabelledGraph]:
    while True:
        made = generate_lfr(np.random.default_rng(seed), LAW)
        yield LabelledGraph(made.adjacency(), made.communities)
        seed += 1


def _curves(options: argparse.Namespace) -> Iterator[tuple[str, list[LabelledAdjacency]]]:
    """Fewer windows, fewer labels, wrong labels."""
    rng = np.random.default_rng(options.seed)
    past = list(islice(_graphs(LEARN_SEED + 100 * options.seed), options.windows))
    known: list[LabelledAdjacency] = [
        (one.adjacency, one.labels) for one in past if one.labels is not None
    ]
    for n_windows in (1, 2, 5, 10, 20):
        if n_windows <= options.windows:
            yield f"{n_windows} windows", known[:n_windows]
    for share in (0.3, 0.1):
        some = [(graph, np.where(rng.random(len(of)) < share, of, -1)) for graph, of in known[:10]]
        yield f"10 windows, labels of {share:.0%} of the nodes", some
    wrong = [
        (graph, np.where(rng.random(len(of)) < 0.1, rng.permutation(of), of))
        for graph, of in known[:10]
    ]
    yield "10 windows, a tenth of the labels wrong", wrong


def _in_hindsight(options: argparse.Namespace) -> Iterator[tuple[str, list[LabelledAdjacency]]]:
    """Six windows of a stream: with their labels, and with what is found in them later."""
    stream = generate_drifting_lfr(STREAM_SEED + options.seed, 6, LAW)
    windows = list(planted_snapshots((graph for graph, _ in stream), "stream", "benchmark"))
    graphs = [
        LabelledGraph(snapshot.adjacency(), None, Moment("stream", snapshot.nodes, snapshot.window))
        for snapshot, _ in windows
    ]
    started = time.process_time()
    found = in_hindsight(graphs, options.seed)
    spent = time.process_time() - started
    agreements = [
        100 * ami(known.labels, labels)
        for (_, known), labels in zip(windows, found, strict=True)
        if labels is not None
    ]
    print(f"AMI of the labels, found in {spent:.0f} CPU s: {np.round(agreements, 1)}", flush=True)
    yield "6 windows without labels, in hindsight", _with(graphs, found)
    yield "the same 6 windows, by their labels", _with(graphs, [of.labels for _, of in windows])


def _with(
    graphs: Sequence[LabelledGraph], labels: Sequence[Labels | None]
) -> list[LabelledAdjacency]:
    pairs = zip(graphs, labels, strict=True)
    return [(graph.adjacency, of_graph) for graph, of_graph in pairs if of_graph is not None]


def _untrained(tests: Sequence[LabelledAdjacency]) -> list[tuple[float, float]]:
    hops = Model(Recipe(name="hops", encoder=UNTRAINED), open_model("default").model.bp)
    return [_scores(hops, *test) for test in tests]


def _tested(weights: Weights, tests: Sequence[LabelledAdjacency]) -> list[tuple[float, float]]:
    return [_scores(Model(RECIPE, trained=weights), *test) for test in tests]


def _scores(model: Model, adjacency: csr_array, truth: Labels) -> tuple[float, float]:
    """AMI, percent, of both methods."""
    by_icd = detect(adjacency, model, n_distinct(truth), method="icd", threads=1)
    by_bp = detect(adjacency, model, method="bp", threads=1)
    return 100 * ami(truth, by_icd.communities), 100 * ami(truth, by_bp.communities)


def _row(name: str, scores: Sequence[tuple[float, float]], spent: float) -> str:
    columns = (mean_and_error(column) for column in np.array(scores).T)
    shown = " | ".join(f"{mean:.2f} ± {error:.2f}" for mean, error in columns)
    return f"| {name} | {shown} | {spent:.0f} |"


if __name__ == "__main__":
    main()
