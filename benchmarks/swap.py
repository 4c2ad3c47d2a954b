"""How long a detector pauses when its model changes, beside the time of one snapshot.

    python -m benchmarks.swap

A detector works through batches without Kafka, each of one LFR graph (5,000 nodes, mixing 0.3) per
worker process, while the champion of a registry on disk changes again and again between `lfr` and
`gn`, once as if a gate had promoted both for this graph, and once without a gate. The pause is the
processor time of a batch with which the model changes, less that of a batch with which it does not:
other work on the machine changes neither. Writes a section of docs/measured/running.md.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.lineage import DataRange, Gate, Lineage
from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.core.store.store import Store, open_store
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.record import Record
from stream_icd.methods.synthetic.lfr import generate_lfr
from stream_icd.registry.aliases import Aliases, current, promote
from stream_icd.registry.find import open_model
from stream_icd.registry.model import PackedModel, VersionedModel
from stream_icd.registry.versions import publish, version_folder
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.worker_process import start_fork_server
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.model_swap import ModelSwap
from stream_icd.wire.snapshots import encode_snapshot

MODELS = ("lfr", "gn")
GRAPH = "stream"
BETWEEN = 4
"""Batches before each promotion."""


@dataclass
class Measured:
    """What was measured with some number of worker processes.

    Attributes:
        by_gate: whether a gate promoted the models.
        same: processor milliseconds of each batch without a change of the model, by model; in
            the thread that begins it and in the worker processes.
        changed: model and milliseconds of each batch with which the model changed.
        check: of it, milliseconds per snapshot for the check whether the model fits the graph,
            which is not made if a gate promoted it.
        begin: milliseconds by the clock to begin a batch that changes the model.
        load: processor seconds of the new processes until they are warm.
        meanwhile: snapshots detected between a promotion and the change.
    """

    processes: int
    by_gate: bool
    same: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    changed: list[tuple[str, float]] = field(default_factory=list)
    check: list[float] = field(default_factory=list)
    begin: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    meanwhile: list[int] = field(default_factory=list)

    @property
    def snapshot(self) -> float:
        """Processor milliseconds per snapshot."""
        return median(ms for found in self.same.values() for ms in found) / self.processes

    @property
    def pause(self) -> float:
        """Processor milliseconds that a change adds to a snapshot."""
        added = (ms - median(self.same[model]) for model, ms in self.changed)
        return median(added) / self.processes


def processor_ms(processes: Iterable[psutil.Process]) -> float:
    """Processor milliseconds that the threads of these processes have run that still exist."""
    total = 0
    for process in processes:
        for file in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
            with suppress(ProcessLookupError, FileNotFoundError):  # the thread has ended
                total += int(file.read_text().split()[0])
    return total / 1e6


def record() -> Record:
    """A snapshot as it is read from a topic."""
    graph = generate_lfr(np.random.default_rng(100))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    src, dst = graph.adjacency().nonzero()
    pairs = src[src < dst], dst[src < dst]
    window = Window(start, start + timedelta(hours=1))
    message = encode_snapshot(
        snapshot_from_pairs(*pairs, graph=GRAPH, id=f"{GRAPH}/0", window=window)
    )
    return Record("snapshots", 0, 0, 0, message.key, message.value, message.headers)


def lineage_of(version: str, *, by_gate: bool) -> Lineage:
    """As after `models import`, or after a retraining on this graph whose gate promoted it."""
    now = datetime.now(UTC)
    imported = Lineage("benchmark", now, "0")
    if not by_gate:
        return imported
    gate = Gate("before", version, now, now, 8, passed=True, reason="better")
    return replace(imported, data=DataRange((GRAPH,), now, now, 3), gate=gate)


def registry_with_models(folder: str, *, by_gate: bool) -> tuple[Store, list[str]]:
    """A registry with both models, and their versions; the first one is the champion."""
    registry, versions = open_store(folder), []
    for name in MODELS:
        model = PackedModel.of(open_model(name).model)
        lineage = lineage_of(model.version, by_gate=by_gate)
        publish(registry, model, lineage)
        versions.append(model.version)
    crown(registry, versions[0])
    return registry, versions


def crown(registry: Store, version: str) -> None:
    seen = current(registry)
    promote(registry, version, "benchmark", datetime.now(UTC), by="benchmark", seen=seen)


class Bench:
    """A detector that follows the champion of a registry."""

    def __init__(self, registry: Store, found: Measured, snapshot: Record) -> None:
        self.found = found
        self.workers: dict[str, set[psutil.Process]] = {}
        self._settings = DetectSettings(threads=1)
        self._batch = [snapshot] * found.processes
        self.swap = ModelSwap(self._opened)
        self.follower = self.swap.start_with_champion(registry, threading.Event(), refuse)
        self._detector = Detector(self.swap.model, self._settings, self.swap)

    @contextmanager
    def _opened(self, model: VersionedModel, place: str) -> Iterator[Processes[Record, Outcome]]:
        start_fork_server()
        before = set(psutil.Process().children(recursive=True))
        work = RecordDetection(model, self._settings)
        with Processes(work, place, self.found.processes) as engine:
            engine.wait_until_warm(threading.Event())
            self.workers[model.version] = set(psutil.Process().children(recursive=True)) - before
            self.found.load.append(processor_ms(self.workers[model.version]) / 1000)
            yield engine

    def batch(self) -> bool:
        """Detect a batch; return whether its model is another one than that of the last batch."""
        before = self._detector.context["model"]
        warm = {version: processor_ms(ours) for version, ours in self.workers.items()}
        thread, clock = time.thread_time(), time.perf_counter()
        self._detector.begin(self._batch)
        begun = 1000 * (time.perf_counter() - clock)
        for _ in self._detector.work(self._batch):
            pass
        version = self._detector.context["model"]
        spent = 1000 * (time.thread_time() - thread)
        spent += processor_ms(self.workers[version]) - warm[version]
        changed = version != before
        if changed:
            self.found.begin.append(begun)
            self.found.changed.append((version, spent))
        else:
            self.found.same[version].append(spent)
        return changed


def refuse(aliases: Aliases, error: Exception) -> None:
    raise SystemExit(f"{aliases.champion}: {error}")


def measure(processes: int, changes: int, snapshot: Record, *, by_gate: bool) -> Measured:
    """Change the model `changes` times while batches are detected."""
    with tempfile.TemporaryDirectory() as folder:
        registry, versions = registry_with_models(folder, by_gate=by_gate)
        bench = Bench(registry, Measured(processes, by_gate), snapshot)
        for i in range(changes):
            for _ in range(BETWEEN):
                bench.batch()
            crown(registry, versions[(i + 1) % 2])
            loading = threading.Thread(target=bench.follower.look)
            loading.start()
            n_batches = 0
            while not bench.batch():
                n_batches += 1
            bench.found.meanwhile.append(n_batches * processes)
            loading.join()
        bench.swap.close()
        places = [version_folder(registry, version).uri for version in versions]
        bench.found.check += [check_ms(open_model(place), snapshot) for place in places]
    return bench.found


def check_ms(model: VersionedModel, snapshot: Record) -> float:
    """Processor milliseconds of the check whether the model fits, in a warm process."""
    times: list[float] = []
    checked = RecordDetection(model, DetectSettings(threads=1))
    for work in (checked, checked, RecordDetection(model, DetectSettings(threads=1))):
        began = time.process_time()
        work(snapshot)
        times.append(1000 * (time.process_time() - began))
    return times[2] - times[1]


HEAD = (
    "promoted | worker processes | ms per snapshot | pause, ms per process | of it the check "
    "whether the model fits the graph, ms | to change to the new processes, ms by the clock | "
    "to load, s per process | snapshots detected meanwhile"
)


def section(results: list[Measured]) -> str:
    """The table, and what it says."""
    rows = [
        (
            "by the gate" if result.by_gate else "by hand",
            f"{result.processes}",
            f"{result.snapshot:.0f}",
            f"**{result.pause:.0f}**",
            f"{round(median(result.check))}",
            f"{median(result.begin):.2f}",
            f"{median(result.load) / result.processes:.1f}",
            f"{median(result.meanwhile):.0f}",
        )
        for result in results
    ]
    table = "\n".join((HEAD, " | ".join(["---"] * 8), *map(" | ".join, rows)))
    return f"""{table}

Written by `python -m benchmarks.swap`: medians of {len(results[0].changed)} changes between `lfr`
and `gn`, a batch of one LFR graph (5,000 nodes) per process. Times are processor time unless the
column says otherwise.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--dry-run", action="store_true", help="print; leave the page as it is")
    arguments = parser.parse_args()
    snapshot, machine = record(), Machine(BY_CLOCK)
    results = [
        measure(processes, arguments.changes, snapshot, by_gate=by_gate)
        for by_gate in (True, False)
        for processes in (1, 2)
    ]
    text = section(results)
    print(text)
    if not arguments.dry_run:
        write_section("measured/running.md", "swap.py", f"{text}{machine.stamp()}\n")


if __name__ == "__main__":
    main()
