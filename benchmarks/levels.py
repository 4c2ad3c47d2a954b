"""Are levels of communities those that were planted, beside those of other programs?

    python -m benchmarks.levels [--data FOLDER]

Graphs of two planted levels and of one, K unknown, model `default`; with `--data` (it holds
`as733.parquet` and `labelled/labels/as733_countries.parquet`), also the Internet by country. Writes
its section of docs/measured/levels.md. graspologic divides communities that are larger than a
limit, which is given.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.sparse import csr_array, triu

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs import two_levels
from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.graphs.two_levels import TwoLevels
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.peers import graph_tool_peer
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.estimator import ICD
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.sources.datasets.as_topology import read_as_topology

MIXINGS = ((0.05, 0.3), (0.1, 0.3), (0.1, 0.5), (0.3, 0.2))
"""Shares of the edges outside large communities, and inside them but outside small ones."""

LARGEST = 100
"""Nodes of a community that graspologic does not divide, at most."""

Found = tuple[list[Labels], float]
"""Levels, (n,) each, coarsest first, and the CPU seconds of the search. A node is in its last
community on the levels after it, too."""

Find = Callable[[csr_array, int], Found]


def ours(adjacency: csr_array, seed: int) -> Found:
    """`ICD.hierarchy_`."""
    icd, started = ICD.load("default", levels=True, seed=seed), time.process_time()
    icd.predict(adjacency)
    seconds = time.process_time() - started
    assert icd.hierarchy_ is not None
    rows = [icd.hierarchy_[name].to_numpy() for name in ("node", "cluster", "level")]
    return filled(*rows, n_nodes=adjacency.shape[0]), seconds


def filled(node: Labels, cluster: Labels, level: Labels, n_nodes: int) -> list[Labels]:
    """Levels of a table of a hierarchy, (n,) each, coarsest first."""
    levels, now = [], np.full(n_nodes, -1)
    for number in range(int(level.max()) + 1):
        here = level == number
        now = now.copy()
        now[node[here]] = cluster[here]
        levels.append(now)
    return levels


def graph_tool(adjacency: csr_array, seed: int) -> Found:
    """Levels of its nested blockmodel with more than one block."""
    edges = np.stack(triu(adjacency, 1, format="coo").coords)
    levels, seconds = graph_tool_peer.find(edges, adjacency.shape[0], "levels", seed)
    return list(levels), seconds


def graspologic(adjacency: csr_array, seed: int) -> Found:
    """Levels of its hierarchical Leiden."""
    from graspologic_native import hierarchical_leiden

    upper = triu(adjacency, 1, format="coo")
    low, high = (end.astype(str).tolist() for end in upper.coords)
    edges = list(zip(low, high, upper.data.tolist(), strict=True))
    started = time.process_time()
    rows = hierarchical_leiden(edges, max_cluster_size=LARGEST, seed=seed)
    seconds = time.process_time() - started
    table = np.array([(int(row.node), row.cluster, row.level) for row in rows])
    return filled(*table.T, n_nodes=adjacency.shape[0]), seconds


def infomap(adjacency: csr_array, seed: int) -> Found:
    """Levels of Infomap with more than one module, the best of ten trials as in other tables."""
    from infomap import Infomap

    upper = triu(adjacency, 1, format="coo")
    search = Infomap(silent=True, seed=seed + 1, num_trials=10)
    started = time.process_time()
    search.add_links(list(zip(*(end.tolist() for end in upper.coords), strict=True)))
    modules = search.run().multilevel_modules()
    seconds = time.process_time() - started
    n_levels = len(next(iter(modules.values())))
    alone = {node: (-1 - node,) * n_levels for node in range(adjacency.shape[0])}  # without edges
    found = np.array(list((alone | dict(modules)).values()))
    return [level for level in found.T if len(np.unique(level)) > 1] or [found[:, 0]], seconds


def planted(out: float, near: float, seed: int) -> TwoLevels:
    """A graph of two levels."""
    return two_levels.generate(seed, out, near)


def of_one_level(mixing: float, seed: int) -> TwoLevels:
    """An LFR graph, whose small communities are its large ones."""
    graph = generate_lfr(
        np.random.default_rng(seed), LfrSettings(two_levels.N_NODES, mixing=mixing)
    )
    return TwoLevels(graph.adjacency(), graph.communities, graph.communities)


def scores(graph: TwoLevels, find: Find, seed: int) -> tuple[float, float, float, float]:
    """AMI in % of the best level with small and large communities, how many levels, and seconds."""
    levels, seconds = find(graph.adjacency, seed)
    small, large = (
        100 * max(ami(truth, level) for level in levels) for truth in (graph.small, graph.large)
    )
    return small, large, float(len(levels)), seconds


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=5, help="graphs of each row")
    parser.add_argument("--graph-tool", type=int, default=1, help="graphs of each row for it")
    parser.add_argument("--data", type=Path, help="folder of as733.parquet and labelled/")
    options = parser.parse_args()
    finds: dict[str, tuple[Find, int]] = {
        "ours": (ours, options.graphs),
        "graph-tool": (graph_tool, options.graph_tool),
        "graspologic": (graspologic, options.graphs),
        "Infomap": (infomap, options.graphs),
    }
    if not (options.graph_tool and graph_tool_peer.is_there()):
        del finds["graph-tool"]
    kinds: dict[str, Callable[[int], TwoLevels]] = {
        f"two levels, {out:.0%} out, {near:.0%} near": lambda seed, o=out, n=near: planted(
            o, n, seed
        )
        for out, near in MIXINGS
    }
    kinds |= {
        f"one level, LFR, μ = {mixing}": lambda seed, m=mixing: of_one_level(m, seed)
        for mixing in (0.3, 0.5)
    }
    text = f"| graphs | {' | '.join(finds)} |\n|---|{'---|' * len(finds)}\n"
    for kind, generate in kinds.items():
        cells = []
        for find, n_graphs in finds.values():
            of = [scores(generate(TEST_SEED + at), find, at) for at in range(n_graphs)]
            small, large, n_levels, seconds = np.mean(of, axis=0)
            cells.append(f"{small:.1f}; {large:.1f}; {n_levels:.1f}; {seconds:.1f} s")
        text += f"| {kind} | {' | '.join(cells)} |\n"
        print(text.splitlines()[-1], flush=True)
    if options.data:
        text += f"\n{internet(options.data)}\n"
    write_section("measured/levels.md", "levels.py", text + "\n" + measured_at())


def internet(folder: Path) -> str:
    """What the levels of the Internet have to do with countries."""
    *_, (day, _) = read_as_topology(folder / "as733.parquet").snapshots
    of = pq.read_table(folder / "labelled/labels/as733_countries.parquet")
    country = dict(zip(of["node"].to_pylist(), of["label"].to_pylist(), strict=True))
    truth = np.array([country.get(node, "") for node in day.nodes.to_pylist()])
    known = truth != ""
    number = np.unique(truth[known], return_inverse=True)[1]
    lines = [
        f"{len(np.unique(level))} communities, AMI with the country {100 * ami(number, own):.1f} %"
        for level in ours(day.adjacency(), 0)[0]
        for own in [np.unique(level[known], return_inverse=True)[1]]
    ]
    return f"The Internet on the last day, coarsest level first: {'; '.join(lines)}."


if __name__ == "__main__":
    main()
