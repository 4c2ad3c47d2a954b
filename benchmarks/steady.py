"""What a window costs in the steady state: with memory, alone, and peers, side by side in one run.

    python -m benchmarks.steady --data FOLDER

FOLDER holds as733.parquet. All methods go through the same windows in turns, on one thread, after
each has run once; the first half of the windows is not counted. Milliseconds of processor time.
What peers work on is built before time is taken; so is our adjacency matrix. Writes
docs/measured/steady.md, unless other programs used too much of the machine meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from threadpoolctl import threadpool_limits

from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.machine import BY_CPU, Machine
from benchmarks.shared.peers.igraph_peers import build_graph, leiden_at
from benchmarks.shared.streams.known_streams import AS_DAYS, internet_days, planted_windows
from benchmarks.shared.streams.memory_streams import Stream
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.estimator import ICD
from stream_icd.interfaces.evaluation.methods.others import networkit_graph
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.quality.partition import modularity
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

DOCS = Path(__file__).parents[1] / "docs" / "measured"
Labels = NDArray[np.int32]
Run = Callable[[Snapshot], tuple[Labels, float]]
"""Communities of the next window, and milliseconds of processor time."""

N_SMALL, N_LARGE = 40, 16
"""Windows of the streams of 5,000 and of 50,000 nodes: searches of hypotheses that follow become
rarer with each."""

N_FIRST = 10
DEAR = 1.5

LONG = range(733)
"""All days of AS-733."""


def main() -> None:
    """Measure all streams, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="begin of streams")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder to write to")
    options, machine = parser.parse_args(), Machine(BY_CPU)
    rows: list[str] = []
    with threadpool_limits(1):
        for name, load in streams(options.data).items():
            if name.startswith(tuple(options.only)):
                rows += rows_of(name, load())
                print("\n".join(rows[-4:]), flush=True)
    page = PAGE.format(rows="\n".join(rows), dear=DEAR, stamp=machine.stamp())
    (options.docs / "steady.md").write_text(page)


def streams(data: Path) -> dict[str, Callable[[], list[Snapshot]]]:
    """The windows of each stream, by name."""

    def planted(mixing: float, n_nodes: int, n_windows: int) -> list[Snapshot]:
        stream = Stream(mixing, n_nodes, events=False)
        return [window.snapshot for window in planted_windows(stream, TEST_SEED, n_windows)]

    return {
        "LFR μ .3, 5,000 nodes": partial(planted, 0.3, 5000, N_SMALL),
        "LFR μ .6, 5,000 nodes": partial(planted, 0.6, 5000, N_SMALL),
        "AS, 40 days": lambda: list(internet_days(data / "as733.parquet", AS_DAYS)),
        "AS, 733 days": lambda: list(internet_days(data / "as733.parquet", LONG)),
        "LFR μ .3, 50,000 nodes": partial(planted, 0.3, 50_000, N_LARGE),
        "LFR μ .6, 50,000 nodes": partial(planted, 0.6, 50_000, N_LARGE),
    }


def runs() -> dict[str, Run]:
    """All methods; they start anew with each stream."""
    return {
        "alone": alone(),
        "**ours, with memory**": with_memory(),
        "`ICD.predict_next`": as_a_user(),
        "NetworKit PLM": plm,
        "igraph Leiden, converged": leiden,
    }


def timed(find: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and milliseconds of processor time."""
    started = time.process_time()
    found = find()
    return found, 1000 * (time.process_time() - started)


def alone() -> Run:
    """Each window by itself, model `default`."""
    model = open_model("default").model

    def run(window: Snapshot) -> tuple[Labels, float]:
        adjacency = window.adjacency()
        found, spent = timed(lambda: detect(adjacency, model, threads=1))
        return found.communities, spent

    return run


def with_memory() -> Run:
    """With what was remembered of the windows before."""
    model, memory = open_model("default").model, None

    def run(window: Snapshot) -> tuple[Labels, float]:
        nonlocal memory
        adjacency = window.adjacency()
        found, spent = timed(lambda: detect_remembering(window, model, memory, adjacency=adjacency))
        memory = found.memory
        return found.communities, spent

    return run


def as_a_user() -> Run:
    """The same through the estimator, from the snapshot on, with all that it leaves."""
    estimator, memory = ICD.load("default"), None
    estimator.set_params(threads=1)

    def run(window: Snapshot) -> tuple[Labels, float]:
        nonlocal memory
        found, spent = timed(lambda: estimator.predict_next(window, memory))
        memory = found.memory
        return found.communities, spent

    return run


def plm(window: Snapshot) -> tuple[Labels, float]:
    """Louvain with refinement."""
    import networkit

    networkit.setNumberOfThreads(1)
    networkit.setSeed(0, False)
    graph = networkit_graph(window.adjacency())
    found, spent = timed(lambda: networkit.community.PLM(graph, refine=True).run().getPartition())
    return np.unique(found.getVector(), return_inverse=True)[1].astype(np.int32), spent


def leiden(window: Snapshot) -> tuple[Labels, float]:
    """Leiden at resolution 1."""
    graph = build_graph(window.adjacency())
    return timed(lambda: leiden_at(graph, 1.0, -1, 0))


def rows_of(name: str, windows: Sequence[Snapshot]) -> list[str]:
    """A row for each method: what the windows of the second half cost, and the first ones."""
    for warm_up in runs().values():
        warm_up(windows[0])
    methods = runs()
    spent: dict[str, list[float]] = {method: [] for method in methods}
    quality: dict[str, list[float]] = {method: [] for method in methods}
    names = list(methods)
    for at, window in enumerate(track(windows, name)):
        turn = at % len(names)
        for one in names[turn:] + names[:turn]:
            labels, milliseconds = methods[one](window)
            spent[one].append(milliseconds)
            quality[one].append(modularity(window.adjacency(), labels))
    half, alone = len(windows) // 2, np.array(spent["alone"])
    rows = []
    for one in names:
        costs = np.array(spent[one])
        late = costs[half:]
        dear = np.mean(late > DEAR * np.median(late))
        rows.append(
            f"| {name} | {one} | {np.median(late):.1f} | {late.mean():.1f} "
            f"| {late.mean() / alone[half:].mean():.2f} | {100 * dear:.0f} % "
            f"| {costs[:N_FIRST].mean() / alone[:N_FIRST].mean():.2f} "
            f"| {np.mean(quality[one][half:]):.4f} |"
        )
    return rows


PAGE = """# What a window costs in the steady state

For those who plan the load of detectors: processor time for a window of a stream, once the stream
has been followed for a while. Made by `python -m benchmarks.steady --data FOLDER`. {stamp}

All methods go through the same windows in turns, on one thread, warmed up. The second half of the
windows counts, except for *first ten*. *Dearer*: windows that cost more than {dear} times the
median. With memory, these are the windows in which a hypothesis is searched anew. × *alone*: how
many times as much as detection of each window alone, means of the same windows. Modularity is the
mean, at resolution 1.

| stream | method | CPU ms, median | mean | × alone | dearer | first ten, × alone | modularity |
|---|---|---|---|---|---|---|---|
{rows}

*Alone*: each window by itself, model `default`. *Ours, with memory*: what a detector does on a
stream. `ICD.predict_next`: what a user calls; it also makes the adjacency matrix, measures the
evidence and orders the nodes. All others are without the construction of the graph that they work
on. *NetworKit PLM*: Louvain with refinement. *igraph Leiden*: resolution 1, until nothing improves.
"""


if __name__ == "__main__":
    main()
