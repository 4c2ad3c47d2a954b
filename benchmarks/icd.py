"""The paper's way, measured: encoder and K-means beside the default method and the best peer.

    python -m benchmarks.icd --data FOLDER
    python -m benchmarks.icd --graphs 3 --only GN.3 --methods shipped

Writes the sections of docs/measured/icd.md, each when its data set is done; rows of methods that
are not measured this time stay. The graphs are the test graphs of
`benchmarks.shared.graphs.data_sets`; recipes and models were chosen on others
(`benchmarks.encoder_choice`).
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_array, diags_array

from benchmarks.shared.commit import current_commit
from benchmarks.shared.comparison import Results, compare, mean_and_error
from benchmarks.shared.graphs.data_sets import BenchmarkGraph, DataSet, data_sets
from benchmarks.shared.methods.methods import METHODS, STRONGEST_PEER, Find, Labels
from benchmarks.shared.pages.sections import read_section, write_section
from benchmarks.shared.peers.igraph_peers import build_graph, louvain_count
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.icd.recipe import UNTRAINED, EncoderSettings
from stream_icd.methods.model import Method, Model
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect


class _Paper(NamedTuple):
    """Of a data set: its recipe, what ICD-M has in the paper, the shipped model for it.

    widths, smoothing: the best GCN without training by `benchmarks.encoder_choice`.
    """

    preset: str
    quality: float
    model: str
    widths: tuple[int, ...] = (4096, 512, 512)
    smoothing: int = 2


PAPER = {
    "GN.3": _Paper("GN-0.3", 96.26, "gn"),
    "GN.4": _Paper("GN-0.4", 99.38, "gn"),
    "L(f,.3)": _Paper("L(f,0.3)", 97.21, "lfr"),
    "L(f,.6)": _Paper("L(f,0.6)", 56.07, "lfr"),
    "L(n,.3)": _Paper("L(n,0.3)", 97.30, "lfr"),
    "L(n,.6)": _Paper("L(n,0.6)", 56.48, "lfr"),
    "Taxi": _Paper("Taxi", 74.01, "taxi"),
    "Reddit": _Paper("Reddit", 69.38, "default"),
    "AS": _Paper("AS", 56.82, "as", (4096, 512, 256), 12),
    "Enron": _Paper("Enron", 74.33, "default"),
}
"""Quality is NMI on planted graphs, and modularity on real ones."""

REAL = ("Taxi", "Reddit", "AS", "Enron")

WIDE, RESTARTS = "paper's widths, fast", "paper's widths, 10 restarts"
GCN, HOPS = "untrained GCN", "untrained hops"
METHOD_NAMES = ("shipped", HOPS, GCN, "bp", WIDE, RESTARTS, STRONGEST_PEER)

LOOP_SHARE = 26_467 / 12_572 / 2 - 1
"""Self loops for each entry of A that is not one: the paper's largest AS graph has 26,467 entries,
and 12,572 edges without loops."""


def main() -> None:
    """Parse the command line, measure, write the sections."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the real graphs")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=PAPER)
    parser.add_argument("--graphs", type=int, default=20, help="test graphs a data set")
    parser.add_argument("--restarts", type=int, default=2, help="of them with 10 restarts")
    parser.add_argument("--methods", nargs="+", choices=METHOD_NAMES, default=METHOD_NAMES)
    options = parser.parse_args()
    chosen = options.only or [name for name in PAPER if options.data or name not in REAL]
    for name in chosen:
        data_set = data_sets(options.data or Path())[name]
        graphs = list(evenly(data_set, options.graphs))
        results = compare(graphs, _methods(data_set, options.methods))
        if RESTARTS in options.methods:
            slow = {RESTARTS: _untrained(PAPER[name].preset, "scikit-learn")}
            results |= compare(graphs[: options.restarts], slow)
        section = _section(name, results, read_section("measured/icd.md", f"icd.py {name}"))
        if name == "AS":
            section += _loops(graphs)
        Console().print(section, markup=False, soft_wrap=True)
        write_section("measured/icd.md", f"icd.py {name}", section)


def evenly(data_set: DataSet, n: int) -> Iterator[BenchmarkGraph]:
    """The first n planted graphs; n spread evenly over the newest tenth of real ones."""
    if data_set.training_graphs is not None:
        return islice(data_set.test_graphs(), n)
    days = list(data_set.test_graphs())
    return (days[index * len(days) // n] for index in range(min(n, len(days))))


def _methods(data_set: DataSet, names: Collection[str]) -> dict[str, Find]:
    paper = PAPER[data_set.name]
    model = open_model(paper.model).model
    methods: dict[str, Find] = {}
    if "shipped" in names:
        methods["shipped"] = _by(model, "icd")
    if HOPS in names:
        methods[HOPS] = _by(Model(model.recipe.changed(encoder=UNTRAINED.model_dump())), "icd")
    if GCN in names:
        settings = EncoderSettings(
            widths=paper.widths, smoothing=paper.smoothing, initialisation="hadamard"
        )
        gcn = model.recipe.changed(
            encoder=settings.model_dump(), discriminator_widths=(paper.widths[-1], 1)
        )
        methods[GCN] = _by(Model(gcn), "icd")
    if "bp" in names:
        methods["bp"] = _by(model, "bp")
    if WIDE in names:
        methods[WIDE] = _untrained(paper.preset, "fast")
    if STRONGEST_PEER in names:
        methods[STRONGEST_PEER] = METHODS[STRONGEST_PEER](data_set, 10)
    return methods


def _untrained(recipe: str, clustering: str) -> Find:
    return _by(Model(preset(recipe).changed(clustering=clustering)), "icd")


def _by(model: Model, method: Method) -> Find:
    return lambda task: (
        detect(task.adjacency, model, task.n_communities, method=method, seed=task.seed).communities
    )


def _section(name: str, results: Mapping[str, Results], before: str) -> str:
    """The table; what was not measured now is as it was before."""
    rows = {method: _row(method, found) for method, found in results.items()}
    for line in before.splitlines():
        rows.setdefault(line.strip("| ").split(" | ")[0], line)
    measure = "modularity" if name in REAL else "NMI"
    table = "\n".join(rows[method] for method in METHOD_NAMES if method in rows)
    return f"""
| method | graphs | {measure} | AC | seconds | CPU s | commit |
| --- | --- | --- | --- | --- | --- | --- |
| the paper's ICD-M | | {PAPER[name].quality:.2f} | | | | |
{table}

"""


def _row(method: str, results: Results) -> str:
    return (
        f"| {method} | {len(results.seconds)} | {_mean(results.quality)} "
        f"| {_mean(results.accuracy)} | {np.median(results.seconds):.3f} "
        f"| {np.median(results.cpu_seconds):.3f} | {current_commit()} |"
    )


def _mean(values: NDArray[np.float64] | None) -> str:
    if values is None:
        return ""
    mean, error = mean_and_error(values)
    return f"{mean:.2f} ± {error:.2f}"


def _loops(graphs: list[BenchmarkGraph]) -> str:
    """What the self loops of the paper's AS graphs are worth, at random nodes."""
    model = open_model(PAPER["AS"].model).model
    gains = [
        _gain_of_loops(
            graph.adjacency,
            detect(
                graph.adjacency,
                model,
                louvain_count(build_graph(graph.adjacency), seed=0),
                method="icd",
            ).communities,
            np.random.default_rng(number),
        )
        for number, graph in enumerate(graphs)
    ]
    return f"With self loops at random nodes: modularity {np.mean(gains):+.2f}.\n\n"


def _gain_of_loops(adjacency: csr_array, labels: Labels, rng: np.random.Generator) -> float:
    n_nodes = adjacency.shape[0]
    loops = np.zeros(n_nodes)
    loops[rng.choice(n_nodes, round(LOOP_SHARE * adjacency.nnz), replace=False)] = 1
    with_loops = csr_array(adjacency + diags_array(loops))
    return _percent(with_loops, labels) - _percent(adjacency, labels)


def _percent(adjacency: csr_array, labels: Labels) -> float:
    """Modularity in percent by its definition, self loops counted, as the authors' scripts do."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    total = degrees.sum()
    row, column = adjacency.tocoo().coords
    within = adjacency.tocoo().data[labels[row] == labels[column]].sum() / total
    volumes = np.bincount(labels, weights=degrees) / total
    return float(100 * (within - (volumes**2).sum()))


if __name__ == "__main__":
    main()
