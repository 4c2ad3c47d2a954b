"""Bytes a node of each worker, and whether memory stays flat.

    python -m benchmarks.footprint

- Two windows of a graph with 10^4, 10^5 and 10^6 nodes through the steps of a detector, an archive
  worker and a tracker, each in a process of its own.
- 2,000 windows of one graph, each with new nodes only.
- 10,000 graphs of 100 nodes in one detector on Apache Kafka: two windows of each, the second ones
  after a `kill -9`.

Writes docs/measured/footprint.md, unless other programs used too much of the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import structlog

from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.machine import BY_CPU, Machine
from benchmarks.shared.pages.sections import MEASURED
from stream_icd.core.child_process import start_child, tail
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MEMORY, SNAPSHOTS, create_topics
from stream_icd.methods.tracking.track import remember, track
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.communities import decode_communities, encode_communities
from stream_icd.wire.events import encode_events
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import apache_kafka
from tests.testbed.windows import window as communities_of

START = datetime(2026, 1, 1, tzinfo=UTC)
MEMBERS, DEGREE, MIXING = 100, 10, 0.2
PARTS = ("sizes", "windows", "graphs")
WORKERS = ("detect", "archive", "track")


def window(number: int, n_nodes: int, graph: str = "g", first: int = 0) -> Snapshot:
    """Communities of 100 nodes, five edges a node, a fifth of them to anywhere."""
    rng = np.random.default_rng([number, n_nodes])
    src = np.repeat(np.arange(n_nodes), DEGREE // 2)
    near = src // MEMBERS * MEMBERS + rng.integers(0, MEMBERS, len(src))
    near = np.minimum(near, n_nodes - 1)
    dst = np.where(rng.random(len(src)) < MIXING, rng.integers(0, n_nodes, len(src)), near)
    times = Window(START + timedelta(hours=number), START + timedelta(hours=number + 1))
    name = f"{graph}/{number}"
    return snapshot_from_pairs(src + first, dst + first, graph=graph, id=name, window=times)


def record(snapshot: Snapshot, offset: int = 0) -> Record:
    """The message of a snapshot, as it was read."""
    sent = encode_snapshot(snapshot)
    return Record(SNAPSHOTS, 0, offset, 0, sent.key, sent.value, sent.headers)


def detection(**settings: Any) -> RecordDetection:
    """What a detector does with a record."""
    chosen = DetectSettings(memory="auto", memory_topic=MEMORY, group="g", threads=1, **settings)
    work = RecordDetection(open_model("default"), chosen)
    work.warm_up()
    return work


def of_worker(worker: str, n_nodes: int) -> dict[str, float]:
    """Growth at its peak, and what is kept, of a worker with two windows; in bytes."""
    step = STEPS[worker](n_nodes)
    next(step)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of what came before
    before = resident("VmRSS")
    began, kept = time.process_time(), next(step)
    seconds = time.process_time() - began
    return {"peak": resident("VmHWM") - before, "kept": kept, "seconds": seconds}


def resident(name: str) -> int:
    """Bytes of this process in RAM: now (VmRSS), or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def detecting(n_nodes: int) -> Iterator[int]:
    work, relay = detection(), Relay()
    records = [record(window(number, n_nodes), number) for number in range(2)]
    yield 0
    for one in records:
        work(one, relay)
    yield len(relay.memory or b"")


def archiving(n_nodes: int) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        archiver = Archiver(Archive(open_store(folder)), "snapshots")
        archiver.process(record(window(0, 100)))
        records = [record(window(number, n_nodes), number) for number in range(1, 3)]
        yield 0
        for one in records:
            archiver.process(one)
        yield sum(file.stat().st_size for file in Path(folder).rglob("*.parquet")) // 2


def tracking(n_nodes: int) -> Iterator[int]:
    labels = np.arange(n_nodes) // MEMBERS
    ids = np.arange(labels.max() + 1)
    moved = np.where(np.arange(n_nodes) % 50 == 0, labels[::-1], labels)  # two in a hundred
    windows = (communities_of(hour, of, ids=ids) for hour, of in enumerate((labels, moved)))
    found = [encode_communities(window) for window in windows]
    yield 0
    recent: tuple[CommunityEvents, ...] = ()
    for message in found:
        read = decode_communities(message.key, message.value, message.headers)
        tracked = track(recent, read)
        state = encode_events(tracked).value
        recent = remember(recent, tracked)
    yield len(state)


STEPS: dict[str, Callable[[int], Iterator[int]]] = {
    "detect": detecting,
    "archive": archiving,
    "track": tracking,
}


def size_figures(worker: str, n_nodes: int) -> Figures:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.footprint", "--one", worker, str(n_nodes)]
    found = json.loads(subprocess.check_output(command))
    per_node = (f"{found[name] / n_nodes:,.0f}" for name in ("peak", "kept"))
    cells = " | ".join(per_node)
    return {"row": f"{worker} | {n_nodes:,} | {cells} | {found['seconds'] / 2:.2f}"}


def all_new(n_windows: int, n_nodes: int = 500) -> Figures:
    """Windows without any node of the one before; a row for each quarter."""
    work, relay, rows = detection(), Relay(), []
    process, quarter = psutil.Process(), n_windows // 4
    for begin in range(0, n_windows, quarter):
        times = []
        for number in range(begin, begin + quarter):
            one = record(window(number, n_nodes, first=number * n_nodes), number)
            since = time.process_time()
            work(one, relay)
            times.append(1000 * (time.process_time() - since))
        resident = process.memory_info().rss / 2**20
        rows.append(
            f"{begin + quarter:,} | {np.median(times):.1f} | {len(relay.memory or b'') / 1000:.1f}"
            f" | {resident:.0f}"
        )
        print(rows[-1], flush=True)
    return {"rows": rows}


def many_graphs(n_graphs: int) -> Figures:
    """Two windows of each graph; the detector is killed before the second ones."""
    rows = []
    with apache_kafka() as broker, tempfile.TemporaryDirectory() as folder:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        create_topics(settings)
        for number, name in enumerate(("first windows", "second windows, after `kill -9`")):
            with Publisher(settings) as publisher:
                for graph in range(n_graphs):
                    snapshot = window(number, 100, f"graph-{graph:05}")
                    publisher.send(outgoing(SNAPSHOTS, encode_snapshot(snapshot)))
            rows.append(f"{name} | {_worked_off(broker.bootstrap_servers, n_graphs, Path(folder))}")
            print(rows[-1], flush=True)
    return {"rows": rows}


def _worked_off(servers: str, count: int, folder: Path) -> str:
    arguments = (servers, "footprint", "default", "auto", "1")
    command = (sys.executable, "-m", "benchmarks.shared.streams.timed_detector", *arguments)
    log = folder / "log"
    child = start_child(command, log, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        batches = []
        while count > 0:
            line = child.stdout.readline()
            if not line:
                raise SystemExit(f"the detector ended: {tail(log)}")
            batches.append(json.loads(line))
            count -= len(batches[-1]["outcomes"])
        resident = psutil.Process(child.pid).memory_info().rss / 2**20
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    first, last = batches[0], batches[-1]
    n_timed = sum(len(batch["outcomes"]) for batch in batches[1:])
    spent = (1000 * (last[name] - first[name]) / n_timed for name in ("cpu_workers", "cpu_main"))
    cells = " | ".join(f"{one:.1f}" for one in spent)
    return f"{first['cpu_main']:.1f} | {cells} | {resident:.0f}"


PAGE = """# What workers keep

For those who size machines for large graphs, or for many: memory of each worker, and whether it
grows. Written by `python -m benchmarks.footprint`. {stamp}

## A node

Windows have five edges a node and communities of 100 nodes. *Growth*: by how much a worker's memory
grows at its peak, above what it needs for small graphs, bytes a node, with two windows one after
the other. *Kept*: a detector's memory of the graph, as it is published and as it stays in RAM; the
archive's files of a window; the tracker's state, with the events. An edge costs about a fifth.

worker | nodes | growth, bytes a node | kept, bytes a node | CPU s a window
--- | --- | --- | --- | ---
{sizes}

## Windows of new nodes only

{n_windows:,} windows of one graph, 500 nodes each, none of which has been there before.

windows | CPU ms a window, median | state, kB | process, MiB
--- | --- | --- | ---
{windows}

## Many small graphs

{n_graphs:,} graphs of 100 nodes, one detector with one worker process, Apache Kafka. *Taking over*:
CPU of its main process until its first batch is committed, which includes its start; the second
time, it reads the memory of all graphs.

 | taking over, CPU s | CPU ms a snapshot, worker process | main process | main process, MiB
--- | --- | --- | --- | ---
{graphs}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--windows", type=int, default=2_000)
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="no page")
    parser.add_argument("--keep", type=Path, default=Path("footprint.jsonl"), help="figures so far")
    parser.add_argument("--one", nargs=2, metavar=("WORKER", "NODES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    if options.one:
        print(json.dumps(of_worker(options.one[0], int(options.one[1]))))
        return
    machine, kept = Machine(BY_CPU), Kept(options.keep)
    sizes = [
        kept.of(f"{worker}, {n_nodes}", partial(size_figures, worker, n_nodes))["row"]
        for worker in WORKERS
        for n_nodes in options.sizes
        if "sizes" in options.only
    ]
    print(*sizes, sep="\n", flush=True)
    parts: dict[str, list[str]] = {}
    for name, measure in (
        ("windows", partial(all_new, options.windows)),
        ("graphs", partial(many_graphs, options.graphs)),
    ):
        if name in options.only:
            parts[name] = kept.of(name, measure)["rows"]
    if len(options.only) < len(PARTS):
        return
    text = PAGE.format(
        stamp=machine.stamp(),
        sizes="\n".join(sizes),
        n_windows=options.windows,
        n_graphs=options.graphs,
        **{name: "\n".join(rows) for name, rows in parts.items()},
    )
    (MEASURED / "footprint.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
