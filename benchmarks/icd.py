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

INTRODUCTION = """# The method icd: encoder and K-means, as the paper has it

Made by `python -m benchmarks.icd`. NMI and AC in percent, means over test graphs ± standard
error; seconds are medians, all methods in turns on the same graphs and the same two threads.

"Paper's widths" are the recipes of `stream_icd.icd.presets`, untrained; K-means is ours ("fast") or
scikit-learn's with 10 restarts in float64, as the authors' scripts call it. "Shipped" is the model
in `models/`, smaller and trained briefly on a CPU; "control" is the same before training, so their
difference is what training added.
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
