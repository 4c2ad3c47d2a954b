"""Which widths and how much smoothing an untrained encoder needs, on validation graphs.

    python -m benchmarks.encoder_choice --data FOLDER

Writes a section of docs/icd.md. The graphs are neither test graphs nor those that anything
else was learned from. Every candidate has Hadamard weights, rows of length 1, fast K-means, and K
given (on AS as Louvain finds it).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np
from rich.console import Console

from benchmarks.shared.data_sets import BenchmarkGraph, all_snapshots, data_sets, planted_graphs
from benchmarks.shared.igraph_peers import build_graph, louvain_count
from benchmarks.shared.sections import write_section
from stream_icd.detection import detect
from stream_icd.icd.recipe import Recipe
from stream_icd.quality.modularity import modularity
from stream_icd.quality.nmi import nmi
from stream_icd.registry.model import initial_model

VALIDATION_SEED = 5000

CANDIDATES = [
    ((1536, 768, 128), 0),
    ((1536, 768, 128), 2),
    ((4096, 512, 256), 2),
    ((4096, 512, 256), 12),
    ((4096, 512, 512), 2),
    ((4096, 512, 512), 12),
    ((4096, 1024, 512), 2),
]
"""Widths, and smoothing."""

SETS = ("GN.3", "L(f,.3)", "L(f,.6)", "AS")
WEIGHT_SEEDS = (0, 1, 2)


def main() -> None:
    """Parse the command line, measure, write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of as733.parquet")
    parser.add_argument("--graphs", type=int, default=4, help="validation graphs a data set")
    options = parser.parse_args()
    graphs = {name: validation_graphs(name, options.data, options.graphs) for name in SETS}
    head = f"| widths | smoothing | {' | '.join(SETS)} | CPU s |\n" + 7 * "| --- " + "|\n"
    table = head + "".join(_row(widths, smoothing, graphs) for widths, smoothing in CANDIDATES)
    Console().print(table, markup=False, soft_wrap=True)
    write_section("icd.md", "encoder_choice.py", f"\n{table}\n")


def validation_graphs(name: str, data: Path, n: int) -> list[BenchmarkGraph]:
    """Planted graphs of other seeds; of AS, days spread evenly over the ninth tenth."""
    if name != "AS":
        draw = data_sets(data)[name].draw
        assert draw is not None
        return list(islice(planted_graphs(draw, VALIDATION_SEED), n))
    days = all_snapshots(data / "as733.parquet")
    first, last = len(days) * 8 // 10, len(days) * 9 // 10
    return [days[first + index * (last - first) // n] for index in range(n)]


def _row(widths: tuple[int, ...], smoothing: int, graphs: dict[str, list[BenchmarkGraph]]) -> str:
    start = process_time()
    scores = [f"{_score(widths, smoothing, graphs[name]):.2f}" for name in SETS]
    n_runs = len(WEIGHT_SEEDS) * sum(map(len, graphs.values()))
    seconds = (process_time() - start) / n_runs
    shape = "-".join(map(str, widths))
    return f"| {shape} | {smoothing} | {' | '.join(scores)} | {seconds:.2f} |\n"


def _score(widths: tuple[int, ...], smoothing: int, graphs: Sequence[BenchmarkGraph]) -> float:
    """Mean over graphs and weight seeds: NMI in percent, or modularity where nobody knows."""
    found = []
    for seed in WEIGHT_SEEDS:
        recipe = Recipe(
            name="candidate",
            encoder={"widths": widths, "smoothing": smoothing, "initialisation": "hadamard"},  # type: ignore[arg-type]
            discriminator_widths=(widths[-1], 1),
            seed=seed,
        )
        model = initial_model(recipe)
        for graph in graphs:
            labels = detect(graph.adjacency, model, _count(graph), method="icd").communities
            quality = (
                modularity(graph.adjacency, labels)
                if graph.truth is None
                else nmi(graph.truth, labels)
            )
            found.append(100 * quality)
    return float(np.mean(found))


def _count(graph: BenchmarkGraph) -> int:
    if graph.truth is not None:
        return len(np.unique(graph.truth))
    return louvain_count(build_graph(graph.adjacency), seed=0)


if __name__ == "__main__":
    main()
