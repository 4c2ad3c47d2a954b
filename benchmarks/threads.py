"""How much several threads would take off the time of one large graph, on any machine.

    python -m benchmarks.threads [--sizes 50000 500000]

Parts that threads would work on at once run one after the other here, and each is timed. What is
then not needed, if they ran side by side, is taken off. So the ratio is that of a machine with free
cores. On one that has them, `--side-by-side` runs the threads as users do. LFR graphs as in
`benchmarks.growth`. Writes docs/measured/threads.md, or threads_by_the_clock.md, unless other
programs used too much of the machine meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from threadpoolctl import threadpool_limits

from benchmarks.growth import planted
from benchmarks.shared.machine import BY_CPU, Machine
from stream_icd.core.compiled import n_threads
from stream_icd.methods.bp.find import find_communities
from stream_icd.registry.find import open_model

DOCS = Path(__file__).parents[1] / "docs" / "measured"
USERS = (
    "stream_icd.core.compiled",
    "stream_icd.methods.bp.modularity",
    "stream_icd.methods.bp.belief_propagation",
)
"""Modules that call `in_threads`."""


def main() -> None:
    """Measure all sizes, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 500_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--side-by-side", action="store_true", help="needs as many idle cores")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder to write to")
    options, machine = parser.parse_args(), Machine(BY_CPU)
    how, measure = (SIDE_BY_SIDE, clocked) if options.side_by_side else (ONE_BY_ONE, one_by_one)
    option = " --side-by-side" if options.side_by_side else ""
    rows = []
    with threadpool_limits(1):
        for size in options.sizes:
            rows += rows_of(size, options.threads, options.rounds, measure)
            print("\n".join(rows[-len(options.threads) :]), flush=True)
    page = PAGE.format(rows="\n".join(rows), stamp=machine.stamp(), how=how, option=option)
    name = "threads_by_the_clock.md" if options.side_by_side else "threads.md"
    (options.docs / name).write_text(page)


Measure = Callable[[Callable[[], Any]], tuple[float, float]]
"""Milliseconds of processor time of a call, and those until it returns on free cores."""


def rows_of(n_nodes: int, counts: Sequence[int], rounds: int, measure: Measure) -> list[str]:
    """A row for each number of threads; "times as fast" as the first."""
    adjacency, parameters = planted(n_nodes).adjacency(), open_model("default").model.bp
    find_communities(adjacency, parameters, threads=2)
    spent: dict[int, list[tuple[float, float]]] = {threads: [] for threads in counts}
    for _ in range(rounds):
        for threads, runs in spent.items():
            runs.append(
                measure(lambda n=threads: find_communities(adjacency, parameters, threads=n))
            )
    cpu, free = ({n: median(run[k] for run in runs) for n, runs in spent.items()} for k in (0, 1))
    return [
        f"| {n_nodes:,} | {n} | {cpu[n]:.0f} | {free[n]:.0f} | {free[counts[0]] / free[n]:.2f} |"
        for n in counts
    ]


def clocked(find: Callable[[], Any]) -> tuple[float, float]:
    """As the clock says, with threads side by side."""
    started, cpu = time.perf_counter(), time.process_time()
    find()
    return 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - started)


def one_by_one(find: Callable[[], Any]) -> tuple[float, float]:
    """With the threads' parts one after the other, less what is not needed side by side."""
    saved = 0.0

    def in_turn(work: Callable[[int, int], Any], bounds: Sequence[int]) -> list:
        nonlocal saved
        results, busy = [], [0.0] * n_threads()
        for part in pairwise(bounds):
            started = time.process_time()
            results.append(work(*part))
            busy[busy.index(min(busy))] += time.process_time() - started
        saved += sum(busy) - max(busy)
        return results

    started = time.process_time()
    with ExitStack() as stack:
        for user in USERS:
            stack.enter_context(patch(f"{user}.in_threads", in_turn))
        find()
    cpu = time.process_time() - started
    return 1000 * cpu, 1000 * (cpu - saved)


PAGE = """# One large graph in several threads

For those who choose `--threads` of `consume detect`, or `ICD(threads=)`. Made by
`python -m benchmarks.threads{option}`: LFR graphs of mixing 0.4, model `default`, each graph alone.
{stamp}

{how}
The communities are the same, byte for byte.

| nodes | threads | CPU ms | ms with free cores | times as fast as one |
|---|---|---|---|---|
{rows}

Local moves, refinement, aggregation and belief propagation use threads. A thirty-second of the
nodes decide at once where to move, all from the same state; few nodes at the end, and the small
graphs of higher levels, are moved one after the other.
"""

ONE_BY_ONE = """\
The parts that threads work on at once were run one after the other and timed, so that other work
on the machine does not count. The fourth column is what is left if they run side by side
([by the clock](threads_by_the_clock.md), on a machine with 16 cores)."""

SIDE_BY_SIDE = """\
The fourth column is the time by the clock, on a machine with more idle cores than threads
([elsewhere](threads.md) they ran one after the other)."""


if __name__ == "__main__":
    main()
