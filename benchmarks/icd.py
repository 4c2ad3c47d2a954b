"""The paper's way, measured: encoder and K-means, untrained and trained, beside bp.

    python -m benchmarks.icd
    python -m benchmarks.icd --graphs 3 --restarts 1 --only GN.3

Writes docs/icd.md. The graphs are the test graphs of `benchmarks.data_sets`; recipes and
models were chosen on others.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.comparison import Results, compare, mean_and_error
from benchmarks.data_sets import DataSet, data_sets
from benchmarks.methods import METHODS, STRONGEST_PEER, Labels, Method, bp
from stream_icd.detection import detect
from stream_icd.icd.presets import preset
from stream_icd.registry.model import Model, initial_model
from stream_icd.registry.shipped import open_model

PAPER = {
    "GN.3": ("GN-0.3", 96.26, "gn"),
    "GN.4": ("GN-0.4", 99.38, "gn"),
    "L(f,.3)": ("L(f,0.3)", 97.21, "lfr"),
    "L(f,.6)": ("L(f,0.6)", 56.07, "lfr"),
    "L(n,.3)": ("L(n,0.3)", 97.30, "lfr"),
    "L(n,.6)": ("L(n,0.6)", 56.48, "lfr"),
}
"""Of each data set: its recipe, ICD-M's NMI in the paper, and the shipped model for it."""

PAGE = Path(__file__).parent.parent / "docs" / "icd.md"

INTRODUCTION = """# The paper's method

For those who reproduce the paper or need its embedding: how good and how fast the method icd
(encoder and K-means) is, next to the paper's own figures, the default method (bp) and
Leiden.

Made by `python -m benchmarks.icd`. NMI and AC are percentages, means over the test graphs ±
standard error. Seconds are medians; the methods alternate on the same graphs and two threads. All
methods are given the number of communities. GN.3 is GN with p_in = 0.3; L(f,.6) is LFR with 5,000
nodes and mixing 0.6, L(n,.6) with 5,000 to 6,000 nodes.

method | what it is
--- | ---
the paper's ICD-M | the figure in the paper
bp | the default method, with parameters learned from 10 training graphs
paper's widths, fast | untrained encoder with the paper's layer widths \
(`stream_icd.icd.presets`); this project's K-means
paper's widths, 10 restarts | the same encoder; K-means of scikit-learn with 10 restarts in \
float64, as in the authors' scripts
shipped | the encoder in `models/`: smaller, and trained briefly on a CPU
control | the shipped encoder before training; the difference to *shipped* is what training added
Leiden, K searched, converged | igraph's Leiden: the resolution is searched until it finds K \
communities, then it runs until nothing improves
"""


def main() -> None:
    """Parse the command line, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(PAPER))
    parser.add_argument("--graphs", type=int, default=20, help="test graphs a data set")
    parser.add_argument("--restarts", type=int, default=3, help="of them with 10 restarts")
    options = parser.parse_args()
    console, pages = Console(), [INTRODUCTION]
    for name in options.only:
        data_set = data_sets(Path())[name]
        results = compare(islice(data_set.test_graphs(), options.graphs), _methods(data_set))
        slow = {"paper's widths, 10 restarts": _untrained(PAPER[name][0], "scikit-learn")}
        results |= compare(islice(data_set.test_graphs(), options.restarts), slow)
        pages.append(_page(name, results))
        console.print(pages[-1], markup=False, soft_wrap=True)
    PAGE.write_text("\n".join(pages), encoding="utf-8")


def _methods(data_set: DataSet) -> dict[str, Method]:
    recipe, _, shipped = PAPER[data_set.name]
    model = open_model(shipped).model
    return {
        "bp": bp(data_set, 10),
        "paper's widths, fast": _untrained(recipe, "fast"),
        "shipped": _by_icd(model),
        "control": _by_icd(initial_model(model.recipe)),
        STRONGEST_PEER: METHODS[STRONGEST_PEER](data_set, 10),
    }


def _untrained(recipe: str, clustering: str) -> Method:
    return _by_icd(initial_model(preset(recipe).changed(clustering=clustering)))


def _by_icd(model: Model) -> Method:
    def run(adjacency: object, n_communities: int, seed: int) -> Labels:
        found = detect(adjacency, model, n_communities, method="icd", seed=seed)  # type: ignore[arg-type]
        return found.communities

    return Method(run, prepare=lambda adjacency: adjacency)


def _page(name: str, results: Mapping[str, Results]) -> str:
    gain = _difference(results["shipped"], results["control"])
    rows = "\n".join(
        f"| {method} | {len(found.seconds)} | {_mean(found.nmi)} | {_mean(found.accuracy)} "
        f"| {np.median(found.seconds):.3f} |"
        for method, found in results.items()
    )
    return f"""## {name}

| method | graphs | NMI | AC | seconds |
| --- | --- | --- | --- | --- |
| the paper's ICD-M | | {PAPER[name][1]:.2f} | | |
{rows}

What training added (shipped − control): {gain} NMI.
"""


def _mean(values: np.ndarray | None) -> str:
    assert values is not None
    mean, error = mean_and_error(values)
    return f"{mean:.2f} ± {error:.2f}"


def _difference(one: Results, other: Results) -> str:
    assert one.nmi is not None
    assert other.nmi is not None
    mean, error = mean_and_error(one.nmi - other.nmi)
    return f"{mean:+.2f} ± {error:.2f}"


if __name__ == "__main__":
    main()
