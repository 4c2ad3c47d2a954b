"""Both methods on shapes that no planted graph has, a million nodes or edges each.

    python -m benchmarks.shapes
    python -m benchmarks.shapes --nodes 100000 --only path star --no-page

Each run is a process of its own with a limit on its CPU seconds. It does what a detector does with
two windows of a graph, from the message to the result with its evidence and memory, and reports the
CPU seconds of the second and the peak memory. Writes docs/measured/shapes.md, unless other programs
used too much of the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from math import isqrt
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.shared.machine import BY_CPU, Machine

PAGE = Path(__file__).parent.parent / "docs" / "measured" / "shapes.md"
CPU_SECONDS = 600

Edges = tuple[NDArray[np.int64], NDArray[np.int64], int]


def _path(n: int) -> Edges:
    nodes = np.arange(n - 1)
    return nodes, nodes + 1, n


def _star(n: int) -> Edges:
    return np.zeros(n - 1, np.int64), np.arange(1, n), n


def _grid(n: int) -> Edges:
    side = isqrt(n)
    nodes = np.arange(side * side).reshape(side, side)
    low = np.concatenate([nodes[:, :-1].ravel(), nodes[:-1].ravel()])
    high = np.concatenate([nodes[:, 1:].ravel(), nodes[1:].ravel()])
    return low, high, side * side


def _complete(n: int) -> Edges:
    """As many edges as the other shapes have nodes."""
    low, high = np.triu_indices(isqrt(2 * n), 1)
    return low, high, isqrt(2 * n)


def _bipartite(n: int) -> Edges:
    """Complete, with as many edges as the other shapes have nodes."""
    side = isqrt(n)
    return np.repeat(np.arange(side), side), np.tile(np.arange(side, 2 * side), side), 2 * side


def _hubs(n_hubs: int, n: int) -> Edges:
    """A path, and hubs that know all of it: with one, a wheel."""
    low, high, _ = _path(n - n_hubs)
    others = np.arange(n_hubs, n)
    return (
        np.concatenate([np.repeat(np.arange(n_hubs), len(others)), low + n_hubs]),
        np.concatenate([np.tile(others, n_hubs), high + n_hubs]),
        n,
    )


def _matching(n: int) -> Edges:
    return np.arange(0, n - 1, 2), np.arange(1, n, 2), n


def _isolated(n: int) -> Edges:
    return np.zeros(1, np.int64), np.ones(1, np.int64), n


SHAPES: dict[str, Callable[[int], Edges]] = {
    "path": _path,
    "star": _star,
    "grid": _grid,
    "complete": _complete,
    "bipartite": _bipartite,
    "hub": partial(_hubs, 1),
    "two hubs": partial(_hubs, 2),
    "matching": _matching,
    "isolated": _isolated,
}

METHODS = {
    "default": ("bp", "default"),
    "local moves": ("bp", "as"),
    "beliefs": ("bp", "lfr"),
    "encoder": ("icd", "lfr"),
}
"""Method and shipped model of each column."""

MOST_NODES = {"encoder": 100_000}
"""Nodes of columns that would take hours with more."""

KS: dict[str, Callable[[int], int | None]] = {
    "unknown": lambda _: None,
    "√n": isqrt,
    "n/2": lambda n: n // 2,
}


def main() -> None:
    """Parse the command line; measure all, or (internally) one column on one shape."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--ks", nargs="+", choices=KS, default=list(KS))
    parser.add_argument("--limit", type=int, default=CPU_SECONDS, help="CPU seconds of a run")
    parser.add_argument("--no-page", action="store_true", help="print only")
    parser.add_argument("--one", nargs=3, metavar=("SHAPE", "METHOD", "K"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))
        sys.stdout.write(json.dumps(measure(*options.one, options.nodes)))  # type: ignore[call-arg]
        return
    machine = Machine(BY_CPU)
    rows = [
        f"| {shape} | {k} | "
        + " | ".join(_cell(shape, column, k, options) for column in options.methods)
        + " |"
        for shape in options.only
        for k in options.ks
    ]
    Console().print("\n".join(rows), markup=False, soft_wrap=True)
    if not options.no_page:
        PAGE.write_text(_page(rows, options, machine.stamp()), encoding="utf-8")


def measure(shape: str, column: str, k: str, n: int) -> dict[str, float]:
    """What a detector needs for the second of two such windows of one graph.

    CPU seconds, peak memory of the process in MiB, communities found, bytes of the message, and of
    the state that is published with its result.
    """
    from stream_icd.core.log import configure_logging
    from stream_icd.core.snapshot import Window, snapshot_from_pairs
    from stream_icd.kafka.messages.records import Processed
    from stream_icd.kafka.record import Record
    from stream_icd.methods.memory.encoding import decode_memory
    from stream_icd.registry.find import open_model
    from stream_icd.streaming.detection.record import RecordDetection
    from stream_icd.streaming.detection.settings import DetectSettings
    from stream_icd.streaming.execution.work import Relay
    from stream_icd.wire.snapshots import encode_snapshot

    configure_logging()  # to standard error
    low, high, n_nodes = SHAPES[shape](n)
    alone = np.setdiff1d(np.arange(n_nodes), np.concatenate([low, high]))
    src = np.concatenate([low, alone])
    dst = pa.array(np.concatenate([high, alone]), mask=np.arange(len(src)) >= len(low))

    def record(day: int) -> Record:
        start = datetime(2026, 1, 1 + day, tzinfo=UTC)
        message = encode_snapshot(
            snapshot_from_pairs(
                src,
                dst,
                graph="g",
                id=f"g/{day}",
                window=Window(start, start + timedelta(days=1)),
            )
        )
        return Record("snapshots", 0, day, 0, message.key, message.value, message.headers)

    method, name = METHODS[column]
    settings = DetectSettings(
        memory="auto",
        method=method,  # type: ignore[arg-type]
        n_communities=KS[k](n_nodes),
    )
    detect, relay = RecordDetection(open_model(name), settings), Relay()
    detect.warm_up()
    first, second = record(0), record(1)
    relays = (relay,) if detect.chain(first) else ()
    detect(first, *relays)
    started = process_time()
    outcome = detect(second, *relays)
    seconds = process_time() - started
    assert isinstance(outcome, Processed), outcome
    if relay.memory is not None:
        decode_memory(relay.memory)  # the next window needs it
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    return {
        "seconds": seconds,
        "mebibytes": peak,
        "communities": int(str(outcome.facts["communities"])),
        "message": len(second.value or b""),
        "state": len(relay.memory or b""),
    }


def _cell(shape: str, column: str, k: str, options: argparse.Namespace) -> str:
    nodes = min(options.nodes, MOST_NODES.get(column, options.nodes))
    command = [sys.executable, "-m", "benchmarks.shapes", "--nodes", str(nodes)]
    command += ["--limit", str(options.limit), "--one", shape, column, k]
    run = subprocess.run(command, capture_output=True, check=False)
    if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"> {options.limit} s"
    if run.returncode:
        return f"exit {run.returncode}"
    found = json.loads(run.stdout)
    return (
        f"{found['seconds']:.1f} s, {found['mebibytes']:.0f} MiB, {found['communities']:,}, "
        f"{found['state'] / 1e6:.1f} MB"
    )


def _page(rows: list[str], options: argparse.Namespace, stamp: str) -> str:
    titles = " | ".join(options.methods)
    rule = "| --- | --- |" + " --- |" * len(options.methods)
    introduction = INTRODUCTION.format(nodes=options.nodes, **MOST_NODES)
    return "\n".join([introduction, f"| shape | K | {titles} |", rule, *rows, "", stamp, ""])


INTRODUCTION = """# Graphs of unusual shape

For operators who set a [budget](../security.md#a-budget-for-each-snapshot): what detection costs on
shapes that a hostile or unlucky producer could send. Made by `python -m benchmarks.shapes --ks
unknown`.

Each graph has {nodes:,} nodes, {encoder:,} in the last column (the complete and the complete
bipartite graph: as many edges). "Isolated" is as many nodes with one edge, "hub" a path with one
more node that is joined to all others ("two hubs": two). Each run does what a detector does with
two such windows of a graph, from the message to the result with its evidence and memory. A cell
shows CPU seconds of the second window (all threads together), peak memory of the whole process
(about 190 MiB of it are the libraries), the number of communities found, and the size of the memory
that is published. Each run has its own process, which is warm.

column | method | shipped model
--- | --- | ---
default | default | `default`
local moves | default | `as`
beliefs | default | `lfr`
encoder | the paper's | `lfr`

K is unknown. Without `--ks`, the benchmark also measures √n and n/2, which a producer can request
with `icd_k`. A snapshot of a million nodes is a message of 1 to 5 MB, so its budget is 90 to 330
seconds, and 2.1 to 2.6 GiB in addition to the memory of the worker process.
"""


if __name__ == "__main__":
    main()
