"""Make the shipped models whose encoder `edges` is trained, and measure them on their test graphs.

    python -m benchmarks.shipped_encoders lfr gn --out FOLDER

Learns from the graphs of a model's recipe, as `stream-icd train` does: bp's numbers, and the
encoder from the newest ten graphs that are not for testing, of which two validate. The method is
bp: detectors have memory, with which it is better than icd (docs/stream_memory.md). Prints a table
for the card.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.shared.comparison import mean_and_error
from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.icd.learn_edges import learn_edges
from stream_icd.learning.training.train_model import split
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import ami, nmi
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.detect import detect

DATA = {
    "lfr": " + ".join(f"lfr:mixing={m},nodes=2000-6000,graphs=10" for m in (0.4, 0.5, 0.3, 0.6)),
    "gn": "gn:p_in=0.3,graphs=60,seed=1000",
}
"""What each model learns from, see `training_graphs`."""

SPLIT = {"lfr": (0.0, 0.8, 0.2), "gn": (0.8, 0.1, 0.1)}
"""As `Recipe.split`."""

TAUGHT, VALIDATING = 10, 2


def main() -> None:
    """Parse the command line, make the models, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=DATA)
    parser.add_argument("--out", type=Path, required=True, help="folder for the models")
    options = parser.parse_args()
    for name in options.names:
        recipe = Recipe(name=name, encoder=EDGES, data=DATA[name], split=SPLIT[name])
        first, second, tests = split(training_graphs(recipe.data), recipe)
        model = learned([*first, *second], second, recipe)
        save_model(model, options.out / name)
        Console().print(f"\n{name}\n{table(model, tests)}", markup=False, soft_wrap=True)


def learned(
    graphs: Sequence[LabelledGraph], of_bp: Sequence[LabelledGraph], recipe: Recipe
) -> Model:
    """The model."""
    pairs = [(one.adjacency, _truth(one)) for one in graphs[-TAUGHT:]]
    edges = learn_edges(pairs[:-VALIDATING], recipe, validation=pairs[-VALIDATING:])
    return Model(recipe, fit_parameters(of_bp, recipe.seed).parameters, edges.weights)


def table(model: Model, tests: Sequence[LabelledGraph]) -> str:
    """NMI with K given and AMI with K unknown, percent, of the model beside others."""
    ways: dict[str, tuple[Model, Method]] = {
        "bp": (model, "bp"),
        "bp, no encoder": (Model(model.recipe, model.bp), "bp"),
        "bp, `default`": (open_model("default").model, "bp"),
        "icd": (model, "icd"),
        "icd, untrained control (hops)": (open_model("default").model, "icd"),
    }
    lines = ["| method | NMI, K given | AMI, K unknown |", "|---|---|---|"]
    for name, (tried, method) in ways.items():
        rows = []
        for graph in tests:
            given, unknown = (
                detect(graph.adjacency, tried, k, method=method, threads=1).communities
                for k in (graph.n_communities, None)
            )
            rows.append((100 * nmi(_truth(graph), given), 100 * ami(_truth(graph), unknown)))
        cells = [f"{m:.2f} ± {e:.2f}" for m, e in map(mean_and_error, np.array(rows).T)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _truth(graph: LabelledGraph) -> np.ndarray:
    assert graph.labels is not None
    return graph.labels


if __name__ == "__main__":
    main()
