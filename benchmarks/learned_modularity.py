"""What the encoder `edges` learns of the Internet's days from pseudo-labels of most modularity.

    python -m benchmarks.learned_modularity --data FOLDER

The paper trains on such labels where none are known. They are found on twelve days of the first
eight tenths, of which two validate; the test days are those of `benchmarks.icd`. What modularity
says is shown beside what known classes say: the countries of the nodes, on forty days. Writes a
section of docs/measured/icd.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.icd import evenly
from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import BenchmarkGraph, data_sets
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.peers.igraph_peers import build_graph, louvain_count
from benchmarks.shared.streams.known_streams import known_streams
from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.learning.training.icd.learn_edges import learn_edges
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import EDGES
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import ami, of_known
from stream_icd.methods.quality.partition import modularity
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

DAYS = "as:path={}/as733.parquet,graphs=733"
N_TEST, N_TAUGHT, N_VALIDATION = 20, 12, 2


def main() -> None:
    """Write the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    data = parser.parse_args().data
    with threadpool_limits(1):
        untrained = open_model("as").model
        trained = _learned(data, untrained)
        tests = list(evenly(data_sets(data)["AS"], N_TEST))
        rows = []
        for name, model in (("untrained hops", untrained), ("learned", trained)):
            for method in ("icd", "bp"):
                given, unknown = (
                    _modularity(tests, model, method, k_given=k) for k in (True, False)
                )
                of_countries = _countries(data, model, method)
                rows.append(
                    f"| {name} | {method} | {given:.1f} | {unknown:.1f} | {of_countries:.1f} |"
                )
                print(rows[-1], flush=True)
    table = [
        "| encoder | method | modularity, K given | K unknown | AMI with countries, K unknown |",
        "|---|---|---|---|---|",
        *rows,
        "",
        measured_at(),
    ]
    write_section("measured/icd.md", "learned_modularity.py", "\n".join(table))


def _learned(data: Path, model: Model) -> Model:
    past = training_graphs(DAYS.format(data))
    past = past[: 8 * len(past) // 10]
    spread = [past[at * len(past) // N_TAUGHT].adjacency for at in range(N_TAUGHT)]
    most_modular = BpParameters(search=False)
    pairs = [(graph, find_communities(graph, most_modular)) for graph in spread]
    recipe = model.recipe.changed(encoder=EDGES.model_dump())
    learned = learn_edges(pairs[:-N_VALIDATION], recipe, validation=pairs[-N_VALIDATION:])
    return Model(recipe, model.bp, learned.weights)


def _modularity(
    tests: Sequence[BenchmarkGraph], model: Model, method: Method, *, k_given: bool
) -> float:
    """Mean in percent; K is Louvain's, as in the paper."""
    found = []
    for graph in tests:
        k = louvain_count(build_graph(graph.adjacency), seed=0) if k_given else None
        communities = detect(graph.adjacency, model, k, method=method, threads=1).communities
        found.append(modularity(graph.adjacency, communities))
    return 100 * float(np.mean(found))


def _countries(data: Path, model: Model, method: Method) -> float:
    """Mean AMI in percent of single days with the countries of the nodes."""
    scores = []
    for window in known_streams(data)["AS with countries"].load(0):
        adjacency = window.snapshot.adjacency()
        found = detect(adjacency, model, None, method=method, threads=1).communities
        scores.append(ami(*of_known(window.classes, found)))
    return 100 * float(np.mean(scores))


if __name__ == "__main__":
    main()
