"""What each rule of the search in one graph brings: what is found without it.

    python -m benchmarks.search_rules --data FOLDER [--seeds 6]

FOLDER holds as733.parquet and labelled/. A rule is left out by putting something in its place that
does nothing. Planted graphs have seeds for choosing. Writes a section of docs/measured/rules.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TRAINING_SEED, BenchmarkGraph, data_sets
from benchmarks.shared.graphs.known_graphs import ClassifiedGraph, known_graphs
from benchmarks.shared.left_out import left_out
from benchmarks.shared.methods.graph_methods import ours, scores_of
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.spread import with_spread
from stream_icd.methods.bp import find
from stream_icd.methods.bp.partition import measured
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

FIND = "stream_icd.methods.bp.find"
BELIEFS = "stream_icd.methods.bp.belief_propagation._Marginals"


def _partition_bits(marginals: Any, graph: Any, _k: int) -> float:
    return measured(graph, marginals.likeliest).bits or np.inf


def _first_beliefs(
    how: Any, tried: Any, by_beliefs: Callable[..., Any] = find._by_beliefs
) -> list[Any]:
    return by_beliefs(how, tried)[:1]


def _from_one_on(
    how: Any, labels: Any, by_modularity: Callable[..., Any] = find._by_modularity
) -> list[Any]:
    return [one for one in by_modularity(how, labels) if one.resolution >= 1]


RULES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "the sum over partitions: (2) judges beliefs too": {f"{BELIEFS}.bits": _partition_bits},
    "the cut before belief propagation": {
        f"{FIND}.split_communities": lambda _graph, labels, *_, **__: labels
    },
    "beliefs from finer partitions where none saves bits": {f"{FIND}._by_beliefs": _first_beliefs},
    "connected communities": {f"{FIND}.connected": lambda _graph, labels, **_: labels},
    "γ below 1": {f"{FIND}._by_modularity": _from_one_on},
}
"""What stands in for each rule, by what it replaces."""

HEAD = """AMI without it, mean of {seeds} seeds ± standard deviation. *A* and *B*: the halves of
the twenty labelled graphs of [detection.md](detection.md). *LFR .7*: two graphs of 5,000
nodes. *Other planted*: LFR of mixing .3 to .6, GN.

"""


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    groups = graphs_by_group(options.data)
    rows = [f"| left out | {' | '.join(groups)} | CPU s |", "|---" * (len(groups) + 2) + "|"]
    with threadpool_limits(1):
        for name in track(RULES, "rules"):
            rows.append(f"| {name} | {' | '.join(cells_without(name, groups, options.seeds))} |")
            print(rows[-1], flush=True)
    table = "\n".join([*rows, ""])
    text = f"{HEAD.format(seeds=options.seeds)}{table}\n{measured_at()}"
    write_section("measured/rules.md", "search_rules.py", text)


def graphs_by_group(data: Path) -> dict[str, list[list[ClassifiedGraph]]]:
    """The graphs of each column, in kinds that count equally."""
    known = known_graphs(data)
    days = known.pop("AS with countries").load()[::3]
    return {
        "A": [kind.load() for kind in known.values() if kind.purpose == "choose"],
        "B": [kind.load() for kind in known.values() if kind.purpose == "report"],
        f"AS, {len(days)} days": [days],
        "LFR .7": [list(planted(5000, 0.7))],
        "other planted": [
            *(list(planted(1000, mixing)) for mixing in (0.3, 0.4, 0.5, 0.6)),
            *(
                [_classified(graph) for graph in islice(_training(data, name), 3)]
                for name in ("GN.3", "GN.4", "L(f,.3)", "L(f,.6)")
            ),
        ],
    }


def planted(n_nodes: int, mixing: float) -> Iterator[ClassifiedGraph]:
    """Two LFR graphs."""
    for seed in range(TRAINING_SEED, TRAINING_SEED + 2):
        settings = LfrSettings(n_nodes=n_nodes, mixing=mixing)
        graph = generate_lfr(np.random.default_rng(seed), settings)
        yield _classified(BenchmarkGraph(graph.adjacency(), graph.communities))


def _training(data: Path, name: str) -> Iterator[BenchmarkGraph]:
    graphs = data_sets(data)[name].training_graphs
    assert graphs is not None
    return graphs()


def _classified(graph: BenchmarkGraph) -> ClassifiedGraph:
    assert graph.truth is not None
    return ClassifiedGraph(graph.adjacency, (graph.truth.astype(np.int64),))


def cells_without(
    name: str, groups: Mapping[str, list[list[ClassifiedGraph]]], n_seeds: int
) -> Iterator[str]:
    """AMI of each group without a rule, and the seconds of processor time of all graphs."""
    method, spent = ours(), 0.0
    with left_out(RULES[name]):
        for kinds in groups.values():
            amis = []
            for seed in range(n_seeds):
                scores = [[scores_of(one, method, seed) for one in kind] for kind in kinds]
                amis.append(np.mean([np.mean(of_kind, axis=0)[0] for of_kind in scores]))
                spent += sum(one[-1] for of_kind in scores for one in of_kind)
            yield with_spread(amis)
    yield f"{spent / n_seeds:.2f}"


if __name__ == "__main__":
    main()
