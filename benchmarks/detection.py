"""What is found on many kinds of graphs, by us and by peers, with K given and without.

    python -m benchmarks.detection --data FOLDER
    python -m benchmarks.detection --data FOLDER --only "L(f,.6)" cora --graph-tool 1

Simulated graphs: a model learns from three training graphs and is tested on others. Taxis,
discussions, topologies and mails: it learns from the three graphs before those that it is tested
on. Graphs with known communities: it learns from the graph itself, without its labels. Streams of
constant classes: all windows as one graph. Writes its
rows of docs/measured/detection.md, and keeps the rows of what it did not run; with --graph-tool
also runs Debian's python3-graph-tool on the first graphs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_array, triu
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks.shared.commit import current_commit
from benchmarks.shared.graphs.data_sets import TEST_SEED, TRAINING_SEED, BenchmarkGraph, data_sets
from benchmarks.shared.graphs.known_graphs import labelled_files, labelled_graphs, stream_graphs
from benchmarks.shared.limited import within
from benchmarks.shared.pages.sections import read_section, write_section
from benchmarks.shared.peers import graph_tool_peer, igraph_peers, spectral_peers
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.quality.agreement import accuracy, nmi
from stream_icd.methods.quality.partition import modularity
from stream_icd.registry.find import open_model

Labels = NDArray[np.int32]
Find = Callable[[BenchmarkGraph, int], tuple[Labels, float] | None]
"""Labels of a graph for a seed, and the CPU seconds that it took; None if it was ended."""

N_LEARNED = 3

MOST_SECONDS = 120
"""Of processor time, that scikit-learn gets for a graph: on some its eigenvectors do not settle."""

HEAD = """\
| graphs | method | K given | NMI | AC | AMI | modularity | K found | seconds | commit |
|---|---|---|---|---|---|---|---|---|---|
"""


BEHIND_HEAD = """\
| graphs | K given | NMI, `default` | NMI, best peer | best peer | behind |
|---|---|---|---|---|---|
"""

DEFAULT = "bp, model `default`"

METHODS = (
    DEFAULT,
    "bp, learned without labels",
    "bp, learned with labels",
    "Leiden",
    "Infomap",
    "label propagation",
    "Leiden, converged",
    "spectral, scikit-learn",
    "spectral, regularised",
    "graph-tool, nested",
    "graph-tool, planted",
)
"""In the order of the page."""


@dataclass(frozen=True)
class Kind:
    """Graphs of a kind: those to test on, and those to learn from."""

    name: str
    test: list[BenchmarkGraph]
    past: list[BenchmarkGraph]


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these kinds only")
    parser.add_argument("--graphs", type=int, default=5, help="test graphs of a kind, at most")
    parser.add_argument("--graph-tool", type=int, default=0, help="of them, for graph-tool")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="names that begin so only")
    options = parser.parse_args()
    rows = []
    small = _networkx_lfr(0.3, 0)
    for given in (False, True):  # compiles
        _ours(open_model("default").model.bp, small, 0, given=given)
    for kind in _kinds(options.data, options.graphs, options.only):
        for row in _rows(kind, options.graph_tool, tuple(options.methods or [""])):
            rows.append(row)
            Console().print(row, end="", markup=False, soft_wrap=True)
    text = read_section("measured/detection.md", "detection.py").removeprefix(HEAD)
    every = _sorted(text, rows)
    write_section("measured/detection.md", "detection.py", HEAD + "".join(every))
    write_section("measured/detection.md", "detection.py behind", behind(every))


def behind(rows: Iterable[str]) -> str:
    """The graphs on which a peer is ahead of the model `default`, by their printed NMI."""
    best: dict[tuple[str, str], tuple[float, str]] = {}
    ours: dict[tuple[str, str], float] = {}
    for row in rows:
        kind, method, given, score = (cell.strip() for cell in row.split("|")[1:5])
        if method == DEFAULT and score:
            ours[kind, given] = float(score)
        elif not method.startswith("bp") and score:
            best[kind, given] = max(best.get((kind, given), (-1.0, "")), (float(score), method))
    lost = [
        (theirs - ours[place], *place, ours[place], theirs, name)
        for place, (theirs, name) in best.items()
        if theirs > ours.get(place, np.inf)
    ]
    table = [BEHIND_HEAD]
    for gap, kind, given, score, theirs, name in sorted(lost, key=lambda one: one[:3]):
        table.append(f"| {kind} | {given} | {score:.2f} | {theirs:.2f} | {name} | {gap:.2f} |\n")
    return "".join(table)


def _sorted(kept: str, rows: list[str]) -> list[str]:
    """The rows of the page and the new ones in their place: by graphs, method and K given."""
    by_place: dict[tuple[str, ...], str] = {}
    for row in [*kept.splitlines(keepends=True), *rows]:
        by_place[tuple(row.split(" | ")[:3])] = row
    kinds = list(dict.fromkeys(place[0] for place in by_place))
    return [
        by_place[place]
        for place in sorted(
            by_place, key=lambda place: (kinds.index(place[0]), METHODS.index(place[1]), place[2])
        )
    ]


def _kinds(folder: Path, n_graphs: int, only: list[str] | None) -> Iterator[Kind]:
    for data_set in data_sets(folder).values():
        if only and data_set.name not in only:
            continue
        past = (data_set.training_graphs or data_set.past_graphs or list)()
        test = list(islice(data_set.test_graphs(), n_graphs))
        yield Kind(data_set.name, test, list(islice(past, N_LEARNED)))
    for mixing in (0.3, 0.6):
        name = f"networkx LFR, μ = {mixing}"
        if only and name not in only:
            continue
        draws = (
            [_networkx_lfr(mixing, seed) for seed in range(first, first + n)]
            for first, n in ((TEST_SEED, n_graphs), (TRAINING_SEED, N_LEARNED))
        )
        yield Kind(name, *draws)
    for edges, labels in labelled_files(folder / "labelled"):
        if edges.stem in (only or [edges.stem]):
            graphs = list(islice(labelled_graphs(edges, labels), n_graphs))
            yield Kind(edges.stem, graphs, [BenchmarkGraph(one.adjacency) for one in graphs])
    for name, graph in stream_graphs(folder / "labelled", only):
        yield Kind(name, [graph], [BenchmarkGraph(graph.adjacency)])


def _networkx_lfr(mixing: float, seed: int) -> BenchmarkGraph:
    """networkx's generator; it may fail for a seed, so the next ones are tried."""
    for attempt in range(100):
        try:
            graph = nx.LFR_benchmark_graph(
                1000, 3, 1.5, mixing, average_degree=10, min_community=20, max_community=100,
                seed=seed + 10_000 * attempt, max_iters=1000,
            )  # fmt: skip
        except nx.ExceededMaxIterations:
            continue
        truth = np.empty(len(graph), np.int32)
        communities = {frozenset(graph.nodes[node]["community"]) for node in graph}
        for number, members in enumerate(sorted(communities, key=min)):
            truth[list(members)] = number
        return BenchmarkGraph(as_adjacency((np.array(graph.edges).T, len(graph))), truth)
    raise ValueError(f"networkx makes no LFR graph of mixing {mixing} from seed {seed}")


def _rows(kind: Kind, n_graph_tool: int, wanted: tuple[str, ...]) -> Iterator[str]:
    known = kind.test[0].truth is not None
    names = [name for name in METHODS if name.startswith(wanted)]
    methods: dict[str, tuple[Find, int]] = {}
    for name in names:
        if (parameters := _parameters(name, kind.past)) is not None:
            methods[f"{name} | no"] = partial(_ours, parameters, given=False), len(kind.test)
            if known:
                methods[f"{name} | yes"] = partial(_ours, parameters, given=True), len(kind.test)
    peers = {"Leiden": igraph_peers.leiden, "Infomap": igraph_peers.infomap,
             "label propagation": igraph_peers.label_propagation}  # fmt: skip
    for name, find in peers.items():
        methods[f"{name} | no"] = partial(_peer, find), len(kind.test)
    if known:
        converged = partial(_peer, igraph_peers.converged_leiden)
        methods["Leiden, converged | yes"] = converged, len(kind.test)
        methods["spectral, scikit-learn | yes"] = _scikit_learn, len(kind.test)
        methods["spectral, regularised | yes"] = _regularised, len(kind.test)
    for model in ("nested", "planted"):
        if n_graph_tool:
            name = f"graph-tool, {model} | no"
            methods[name] = partial(_graph_tool, model), n_graph_tool
    for name, (find, n_graphs) in methods.items():
        if name.split(" | ")[0] in names:
            yield _row(kind, name, find, n_graphs)


def _parameters(name: str, past: list[BenchmarkGraph]) -> BpParameters | None:
    """The parameters of one of our methods; None if it has nothing to learn from."""
    if name == DEFAULT:
        return open_model("default").model.bp
    labels = name.endswith("with labels")
    if not name.startswith("bp, learned") or not past or (labels and past[0].truth is None):
        return None
    graphs = [LabelledGraph(graph.adjacency, graph.truth if labels else None) for graph in past]
    return fit_parameters(graphs).parameters


def _row(kind: Kind, name: str, find: Find, n_graphs: int) -> str:
    scores = []
    for seed, graph in enumerate(kind.test[:n_graphs]):
        found = find(graph, seed)
        if found is None:
            spent = f"more than {MOST_SECONDS}"
            return f"| {kind.name} | {name} | | | | | | {spent} | {current_commit()} |\n"
        labels, seconds = found
        against = [np.nan] * 3
        if graph.truth is not None:
            against = [
                nmi(graph.truth, labels),
                accuracy(graph.truth, labels),
                adjusted_mutual_info_score(graph.truth, labels),
            ]
        quality = [*against, modularity(graph.adjacency, labels)]
        scores.append([*(100 * np.array(quality)), len(np.unique(labels)), seconds])
    means = np.mean(scores, axis=0)
    cells = ["" if np.isnan(value) else f"{value:.2f}" for value in means[:4]]
    seconds = float(np.median(np.array(scores)[:, 5]))
    cells += [f"{means[4]:.0f}", f"{seconds:.3f}", current_commit()]
    return f"| {kind.name} | {name} | {' | '.join(cells)} |\n"


def _ours(
    parameters: BpParameters, graph: BenchmarkGraph, seed: int, *, given: bool
) -> tuple[Labels, float]:
    n_communities = len(np.unique(graph.truth)) if given else None
    started = time.process_time()
    labels = find_communities(graph.adjacency, parameters, n_communities, seed=seed)
    return labels, time.process_time() - started


def _peer(find: Callable[..., Labels], graph: BenchmarkGraph, seed: int) -> tuple[Labels, float]:
    built = igraph_peers.build_graph(graph.adjacency)
    n_communities = 0 if graph.truth is None else len(np.unique(graph.truth))
    started = time.process_time()
    labels = find(built, n_communities, seed)
    return labels, time.process_time() - started


def _regularised(graph: BenchmarkGraph, seed: int) -> tuple[Labels, float]:
    started = time.process_time()
    k = len(np.unique(graph.truth))
    labels = spectral_peers.regularised_spectral(graph.adjacency, k, seed)
    return labels, time.process_time() - started


def _scikit_learn(graph: BenchmarkGraph, seed: int) -> tuple[Labels, float] | None:
    def timed() -> tuple[Labels, float]:
        started = time.process_time()
        k = len(np.unique(graph.truth))
        labels = spectral_peers.spectral(graph.adjacency, k, seed)
        return labels, time.process_time() - started

    return within(MOST_SECONDS, timed)


def _graph_tool(
    model: graph_tool_peer.Model, graph: BenchmarkGraph, seed: int
) -> tuple[Labels, float]:
    return graph_tool_peer.find(_edges(graph.adjacency), graph.adjacency.shape[0], model, seed)


def _edges(adjacency: csr_array) -> NDArray[np.int32]:
    return np.stack(triu(adjacency).tocoo().coords).astype(np.int32)


if __name__ == "__main__":
    main()
