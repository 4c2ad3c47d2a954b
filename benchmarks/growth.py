"""How time and memory grow with the graph: each run in a process of its own.

    python -m benchmarks.growth
    python -m benchmarks.growth --sizes 5000 50000 500000 5000000

LFR graphs of mean degree 10 whose communities grow with √N, so K ≈ √N. Every process reads its
graph in the form that its method works on (CSR, or an edge array for igraph's graph, whose building
is not timed), warms up on a small graph, and reports the seconds of one run and its peak memory.
Writes a section of docs/measured/growth.md, unless other programs used too much of the machine
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from math import isqrt, log
from pathlib import Path
from time import process_time

import numpy as np
from scipy.sparse import csr_array

from benchmarks.shared.machine import BY_CPU, Machine
from benchmarks.shared.pages.sections import write_section
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

MIXING, TEST_SEED, WARM_UP_NODES = 0.4, 9000, 2000
METHODS = ("bp", "bp, K given", "igraph Leiden")


def main() -> None:
    """Parse the command line; measure all sizes, or (internally) one method on one graph."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 50_000, 500_000])
    parser.add_argument("--rounds", type=int, default=3, help="processes a method and graph")
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(measure(options.one[0], Path(options.one[1]))))
        return
    machine, rows = Machine(BY_CPU), []
    for size in options.sizes:
        rows += [{"nodes": size, **row} for row in measure_size(size, options.rounds)]
        print(*rows[-len(METHODS) :], sep="\n", flush=True)
    write_section("measured/growth.md", "growth.py", _section(rows, machine.stamp()))


def planted(n_nodes: int) -> PlantedGraph:
    """An LFR graph with about √N communities of √N/2 to 2√N nodes."""
    root = isqrt(n_nodes)
    return generate_lfr(
        np.random.default_rng(TEST_SEED),
        LfrSettings(
            n_nodes=n_nodes,
            mixing=MIXING,
            max_degree=min(100, root),
            min_community=root // 2,
            max_community=2 * root,
        ),
    )


def measure_size(n_nodes: int, n_rounds: int) -> list[dict[str, float | str]]:
    """One row for each method, on the same graph: its fastest round, the methods taking turns."""
    with tempfile.TemporaryDirectory() as folder:
        for name, size in (("warm-up", WARM_UP_NODES), ("graph", n_nodes)):
            _save(planted(size), Path(folder) / name)
        rounds = [[_in_process(method, folder) for method in METHODS] for _ in range(n_rounds)]
    fastest = [min(runs, key=lambda run: run["seconds"]) for runs in zip(*rounds, strict=True)]
    return [{"method": name, **run} for name, run in zip(METHODS, fastest, strict=True)]


def _in_process(method: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", "--one", method, folder]
    found: dict[str, float] = json.loads(subprocess.check_output(command))
    return found


def _save(graph: PlantedGraph, folder: Path) -> None:
    folder.mkdir()
    adjacency = graph.adjacency()
    for name in ("indptr", "indices", "data"):
        np.save(folder / f"{name}.npy", getattr(adjacency, name))
    np.save(folder / "edges.npy", graph.edges.T.astype(np.int32))
    np.save(folder / "communities.npy", graph.communities)


def measure(method: str, folder: Path) -> dict[str, float]:
    """CPU seconds, peak memory of this process in MiB, communities found, and NMI."""
    run = _leiden if method == "igraph Leiden" else _bp
    run(folder / "warm-up", method)
    seconds, found = run(folder / "graph", method)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    from stream_icd.methods.quality.agreement import nmi  # not part of what is measured

    truth = np.load(folder / "graph" / "communities.npy")
    return {
        "seconds": seconds,
        "mebibytes": peak,
        "communities": len(np.unique(found)),
        "nmi": 100 * nmi(truth, found),
    }


def _bp(folder: Path, method: str) -> tuple[float, np.ndarray]:
    from stream_icd.methods.bp.find import find_communities
    from stream_icd.methods.bp.parameters import BpParameters

    arrays = [np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr")]
    n_nodes = len(arrays[2]) - 1
    n_communities = None
    if method == "bp, K given":
        n_communities = int(np.load(folder / "communities.npy").max()) + 1
    adjacency = csr_array(tuple(arrays), (n_nodes, n_nodes))
    parameters = BpParameters(8.0, MIXING, iterations=1)
    start = process_time()
    found = find_communities(adjacency, parameters, n_communities)
    return process_time() - start, found


def _leiden(folder: Path, _method: str) -> tuple[float, np.ndarray]:
    import igraph

    edges = np.load(folder / "edges.npy")
    graph = igraph.Graph(n=int(edges.max()) + 1, edges=edges)
    start = process_time()
    found = graph.community_leiden(objective_function="modularity", n_iterations=2)
    return process_time() - start, np.array(found.membership)


def _section(rows: list[dict[str, float | str]], stamp: str) -> str:
    lines = [
        "For those with large graphs: how the time and memory of detection grow with the number "
        "of nodes.",
        "",
        "Made by `python -m benchmarks.growth`: LFR graphs with mean degree 10, mixing "
        f"{MIXING} and K ≈ √N; one process",
        "per run. The table shows the fastest of several runs, which alternate between the "
        "methods: CPU seconds of",
        "the method (all use one thread, so wall-clock time on an idle machine is the same) and "
        "peak memory of the",
        "whole process. igraph's Leiden makes two iterations at resolution 1. The exponent is",
        "log(time ratio) / log(size ratio) to the next smaller graph: 1 means that time is "
        "proportional to size.",
        stamp,
        "",
        "| nodes | method | CPU seconds | exponent | peak MiB | communities | NMI, % |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    before: dict[str, tuple[float, float]] = {}
    for row in rows:
        method, nodes, seconds = str(row["method"]), float(row["nodes"]), float(row["seconds"])
        exponent = ""
        if method in before:
            nodes_before, seconds_before = before[method]
            exponent = f"{log(seconds / seconds_before) / log(nodes / nodes_before):.2f}"
        before[method] = nodes, seconds
        lines.append(
            f"| {int(nodes):,} | {method} | {seconds:.3f} | {exponent} | "
            f"{row['mebibytes']:.0f} | {row['communities']} | {row['nmi']:.2f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
