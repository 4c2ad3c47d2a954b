"""Which shipped model fits which graphs: quality of each model on each data set, K unknown.

    python -m benchmarks.models --data FOLDER

NMI in percent where the communities are known, else modularity in percent; and the CPU time of the
default model and of none. Writes its section of docs/measured/models.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import (
    TEST_SEED,
    BenchmarkGraph,
    DataSet,
    data_sets,
    planted_graphs,
)
from benchmarks.shared.pages.sections import write_section
from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.arrays import Labels
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import modularity
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model, shipped_models
from stream_icd.streaming.detection.detect import detect
from stream_icd.streaming.detection.snapshot import misfit

N_GRAPHS, N_RUNS = 6, 3
MAILS = "events:path={}/email_eu_temporal.parquet,window=3d,sort=yes,graphs=268"


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    options = parser.parse_args()
    models = {"no model": Model(open_model("default").model.recipe, BpParameters())}
    models |= {name: open_model(name).model for name in shipped_models()}
    rows = [_row(one, models) for one in _data_sets(options.data)]
    text = "\n".join(
        [
            f"| graphs | measure | {' | '.join(models)} | ms, no model | ms, default |",
            "|---|---|" + "---|" * (len(models) + 2),
            *rows,
            "",
            measured_at(),
        ]
    )
    write_section("measured/models.md", "models.py", text)


def _data_sets(folder: Path) -> Iterator[DataSet]:
    found = data_sets(folder)
    yield from (found[name] for name in ("GN.3", "GN.4", "L(f,.3)"))
    for mixing in (0.4, 0.5):
        draw = partial(generate_lfr, settings=LfrSettings(mixing=mixing))
        yield DataSet(
            f"L(f,{mixing:.1f})".replace("0.", "."), partial(planted_graphs, draw, TEST_SEED)
        )
    yield from (found[name] for name in ("L(f,.6)", "AS", "Taxi", "Reddit", "Enron"))
    yield DataSet("Mails, windows of 3 days", partial(_mails, folder))


def _mails(folder: Path) -> Iterator[BenchmarkGraph]:
    graphs = training_graphs(MAILS.format(folder))
    return (BenchmarkGraph(graph.adjacency) for graph in graphs[-N_GRAPHS:])


def _row(data_set: DataSet, models: dict[str, Model]) -> str:
    graphs = list(islice(data_set.test_graphs(), N_GRAPHS))
    cells = []
    for model in models.values():
        found = [_found(graph, model) for graph in graphs]
        pairs = list(zip(graphs, found, strict=True))
        warned = sum(misfit(graph.adjacency, labels) is not None for graph, labels in pairs)
        score = np.mean([_score(graph, labels) for graph, labels in pairs])
        cells.append(
            f"{100 * score:.1f}" + (f" ({warned} of {len(graphs)} warned)" if warned else "")
        )
    measure = "modularity" if graphs[0].truth is None else "NMI"
    cells += [f"{_milliseconds(graphs, models[name]):.1f}" for name in ("no model", "default")]
    row = f"| {data_set.name} | {measure} | {' | '.join(cells)} |"
    Console().print(row, markup=False, soft_wrap=True)
    return row


def _found(graph: BenchmarkGraph, model: Model) -> Labels:
    """What the model finds by the method that it was proved best with, K unknown."""
    return detect(graph.adjacency, model, threads=1).communities


def _milliseconds(graphs: list[BenchmarkGraph], model: Model) -> float:
    """CPU time for a graph: the mean over the graphs of the best of `N_RUNS`."""
    return 1000 * float(np.mean([_seconds(graph, model) for graph in graphs]))


def _seconds(graph: BenchmarkGraph, model: Model) -> float:
    times = []
    for _ in range(N_RUNS):
        started = time.process_time()
        _found(graph, model)
        times.append(time.process_time() - started)
    return min(times)


def _score(graph: BenchmarkGraph, found: np.ndarray) -> float:
    if graph.truth is None:
        return modularity(graph.adjacency, found)
    return nmi(graph.truth, found)


if __name__ == "__main__":
    main()
