"""How often graphs with and without communities are said to have them.

    python -m benchmarks.evidence --data FOLDER

Test seeds only; the thresholds were settled on seeds below 1000. Writes its section of
docs/measured/evidence.md.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import igraph
import networkx as nx
import numpy as np
from rich.console import Console
from scipy.sparse import csr_array

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED, all_snapshots
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.peers.igraph_peers import build_graph
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model

N_GRAPHS, N_PLANTED = 100, 20
MODEL = "default"

Draw = Callable[[int], csr_array]

HEAD = """\
| graphs | | strong | weak | none | most bits saved in all | CPU ms, detection | CPU ms, evidence |
|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    options = parser.parse_args()
    parameters = open_model(MODEL).model.bp
    rows = []
    for name, n_graphs, draw in _kinds(options.data):
        strengths, bits, seconds = Counter[str](), 0.0, []
        for seed in range(TEST_SEED, TEST_SEED + n_graphs):
            adjacency = draw(seed)
            started = time.process_time()
            communities = find_communities(adjacency, parameters)
            found = time.process_time()
            evidence = evidence_for(adjacency, communities)
            seconds.append((found - started, time.process_time() - found))
            strengths[evidence.strength] += 1
            bits = max(bits, evidence.bits_saved * adjacency.nnz / 2)
        counts = " | ".join(str(strengths[one]) for one in ("strong", "weak", "none"))
        ms = " | ".join(f"{1000 * one:.1f}" for one in np.median(seconds, axis=0))
        rows.append(f"| {name} | {n_graphs} | {counts} | {bits:,.0f} | {ms} |\n")
        Console().print(rows[-1], end="", markup=False, soft_wrap=True)
    table = HEAD + "".join(rows)
    write_section("measured/evidence.md", "evidence.py", table + "\n" + measured_at())


def _kinds(folder: Path) -> Iterator[tuple[str, int, Draw]]:
    for n_nodes, n_edges in ((20, 40), (34, 78), (100, 300), (1000, 5000), (5000, 25_000)):
        name = f"Erdős–Rényi, {n_nodes:,} nodes, {n_edges:,} edges"
        yield name, N_GRAPHS, partial(_random, n_nodes, n_edges)
    topologies = [graph.adjacency for graph in all_snapshots(folder / "as733.parquet")][::61]
    yield "AS, rewired", N_GRAPHS, lambda seed: _rewired(topologies[seed % len(topologies)], seed)
    club = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
    yield "karate club, rewired", N_GRAPHS, partial(_rewired, club)
    for mixing in (0.1, 0.3, 0.6):
        lfr = partial(_lfr, mixing)
        yield f"LFR, μ = {mixing}, rewired", N_GRAPHS, partial(_rewired_of, lfr)
    yield "karate club", 1, lambda _seed: club
    yield "AS", len(topologies), lambda seed: topologies[seed - TEST_SEED]
    for mixing in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        yield f"LFR, μ = {mixing}", N_PLANTED, partial(_lfr, mixing)
    yield "GN, p_in = 0.3", N_PLANTED, _gn


def _random(n_nodes: int, n_edges: int, seed: int) -> csr_array:
    return as_adjacency(nx.gnm_random_graph(n_nodes, n_edges, seed=seed))


def _lfr(mixing: float, seed: int) -> csr_array:
    return generate_lfr(np.random.default_rng(seed), LfrSettings(mixing=mixing)).adjacency()


def _gn(seed: int) -> csr_array:
    return generate_gn(np.random.default_rng(seed), p_in=0.3).adjacency()


def _rewired_of(draw: Draw, seed: int) -> csr_array:
    return _rewired(draw(seed), seed)


def _rewired(adjacency: csr_array, seed: int) -> csr_array:
    """Another graph with the same degrees, by igraph's swaps."""
    graph: igraph.Graph = build_graph(adjacency)
    random.seed(seed)
    graph.rewire(n=10 * graph.ecount())
    return as_adjacency((np.array(graph.get_edgelist()).T, graph.vcount()))


if __name__ == "__main__":
    main()
