"""Which widths, smoothing and hops an untrained encoder needs, on validation graphs.

    python -m benchmarks.encoder_choice --data FOLDER

Writes a section of docs/measured/icd.md. The graphs are neither test graphs nor those that anything
else was learned from. Every candidate has Hadamard weights, rows of length 1, fast K-means, and K
given (on AS as Louvain finds it). GCN is measured
with three seeds of weights; hops has none to draw.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np
from rich.console import Console

from benchmarks.shared.comparison import n_communities_of
from benchmarks.shared.graphs.data_sets import (
    BenchmarkGraph,
    all_snapshots,
    data_sets,
    planted_graphs,
)
from benchmarks.shared.pages.sections import write_section
from stream_icd.methods.icd.encoder.hops import START
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import modularity
from stream_icd.streaming.detection.detect import detect

VALIDATION_SEED = 5000

Graphs = dict[str, list[BenchmarkGraph]]
"""Validation graphs of each set."""

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

HOPS_WIDTHS = (4096, 512)

HOPS_CANDIDATES = [
    (hops, exponent)
    for exponent in (0.0, 0.1, 0.3, 0.5)
    for hops in ((2, 5), (3, 6), (4, 7), (5, 7))
]
"""First and last of the hops that count, each as much, and b of D^-a A D^-b."""

SETS = ("GN.3", "L(f,.3)", "L(f,.6)", "AS")
WEIGHT_SEEDS = (0, 1, 2)


def main() -> None:
    """Parse the command line, measure, write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of as733.parquet")
    parser.add_argument("--graphs", type=int, default=4, help="validation graphs a data set")
    options = parser.parse_args()
    graphs = {name: validation_graphs(name, options.data, options.graphs) for name in SETS}
    table = _head("widths | smoothing")
    table += "".join(_row(widths, smoothing, graphs) for widths, smoothing in CANDIDATES)
    table += "\n" + _head("hops | b")
    table += "".join(_hops_row(hops, exponent, graphs) for hops, exponent in HOPS_CANDIDATES)
    Console().print(table, markup=False, soft_wrap=True)
    write_section("measured/icd.md", "encoder_choice.py", f"\n{table}\n")


def _head(settings: str) -> str:
    return f"| {settings} | {' | '.join(SETS)} | CPU s |\n" + 7 * "| --- " + "|\n"


def validation_graphs(name: str, data: Path, n: int) -> list[BenchmarkGraph]:
    """Planted graphs of other seeds; of AS, days spread evenly over the ninth tenth."""
    if name != "AS":
        draw = data_sets(data)[name].draw
        assert draw is not None
        return list(islice(planted_graphs(draw, VALIDATION_SEED), n))
    days = all_snapshots(data / "as733.parquet")
    first, last = len(days) * 8 // 10, len(days) * 9 // 10
    return [days[first + index * (last - first) // n] for index in range(n)]


def _row(widths: tuple[int, ...], smoothing: int, graphs: Graphs) -> str:
    recipe = _recipe(EncoderSettings(widths=widths, smoothing=smoothing, initialisation="hadamard"))
    models = [Model(recipe.changed(seed=seed)) for seed in WEIGHT_SEEDS]
    return _scored("-".join(map(str, widths)), str(smoothing), models, graphs)


def _hops_row(hops: tuple[int, int], exponent: float, graphs: Graphs) -> str:
    first, last = hops
    shares = np.zeros(len(START["hops"]), np.float32)
    shares[first : last + 1] = 1 / (last + 1 - first)
    exponents = np.array([1 - exponent, exponent, 0], np.float32)
    recipe = _recipe(EncoderSettings(kind="hops", widths=HOPS_WIDTHS))
    model = Model(recipe, trained={"hops": shares, "exponents": exponents})
    return _scored(f"{first} to {last}", str(exponent), [model], graphs)


def _recipe(settings: EncoderSettings) -> Recipe:
    return Recipe(name="candidate", encoder=settings, discriminator_widths=(settings.widths[-1], 1))


def _scored(name: str, setting: str, models: Sequence[Model], graphs: Graphs) -> str:
    start = process_time()
    scores = [f"{_score(models, graphs[name]):.2f}" for name in SETS]
    seconds = (process_time() - start) / (len(models) * sum(map(len, graphs.values())))
    return f"| {name} | {setting} | {' | '.join(scores)} | {seconds:.2f} |\n"


def _score(models: Sequence[Model], graphs: Sequence[BenchmarkGraph]) -> float:
    """Mean over graphs and models: NMI in percent, or modularity where nobody knows."""
    found = []
    for model in models:
        for graph in graphs:
            labels = detect(
                graph.adjacency, model, n_communities_of(graph), method="icd"
            ).communities
            quality = (
                modularity(graph.adjacency, labels)
                if graph.truth is None
                else nmi(graph.truth, labels)
            )
            found.append(100 * quality)
    return float(np.mean(found))


if __name__ == "__main__":
    main()
