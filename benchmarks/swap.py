"""How long a detector pauses when its model changes, beside the time of one snapshot.

    python -m benchmarks.swap

A detector works through batches of LFR graphs (5,000 nodes, mixing 0.3) without Kafka, while the
champion of a registry on disk changes again and again between `lfr` and `gn`. The pause is the time
from the last result of a batch to the first of the next one, where the model changes in between,
less the same time where it does not. Both are taken in turns, so other work on the machine hits
both. Writes a section of docs/registry.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

import numpy as np
import psutil

from benchmarks.shared.sections import write_section
from stream_icd.execution.engines import IN_HAND, PoolAtWork, ProcessPool
from stream_icd.kafka.record import Record
from stream_icd.lineage import Lineage
from stream_icd.messages.outcome import Outcome, Processed
from stream_icd.registry.aliases import current, promote
from stream_icd.registry.shipped import VersionedModel, folder_of
from stream_icd.registry.versions import pack_folder, publish
from stream_icd.snapshot import Window, snapshot_from_pairs
from stream_icd.store import Store, open_store
from stream_icd.synthetic.lfr import generate_lfr
from stream_icd.wire.snapshots import encode_snapshot
from stream_icd.workers.detect import Detector, DetectSettings, RecordDetection
from stream_icd.workers.follow_champion import (
    ChampionFollower,
    Refusal,
    start_with_champion,
)
from stream_icd.workers.model_swap import ModelSwap

MODELS = ("lfr", "gn")
N_GRAPHS = 8


@dataclass
class Measured:
    """Milliseconds, unless said otherwise.

    Attributes:
        snapshot: time of one snapshot in a worker process.
        same, changed: from the last result of a batch to the first of the next one.
        begin: processor time of the thread that begins a batch with another model.
        load: processor seconds of the new processes until they are warm.
        meanwhile: snapshots detected between a promotion and the change.
    """

    processes: int
    snapshot: list[float] = field(default_factory=list)
    same: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    begin: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    meanwhile: list[int] = field(default_factory=list)

    @property
    def pause(self) -> float:
        """Milliseconds that a change adds between two batches."""
        return median(self.changed) - median(self.same)


def records() -> list[Record]:
    """Snapshots as they are read from a topic."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = []
    for i in range(N_GRAPHS):
        graph = generate_lfr(np.random.default_rng(100 + i))
        window = Window(start + timedelta(hours=i), start + timedelta(hours=i + 1))
        src, dst = graph.adjacency().nonzero()
        once = src < dst
        pairs = src[once], dst[once]
        message = encode_snapshot(
            snapshot_from_pairs(*pairs, graph="lfr", id=f"lfr/{i}", window=window)
        )
        made.append(Record("snapshots", 0, i, 0, message.key, message.value, message.headers))
    return made


def registry_with_models(folder: str) -> tuple[Store, list[str]]:
    """A registry with both models, and their versions; the first one is the champion."""
    registry, versions = open_store(folder), []
    for name in MODELS:
        model, described = pack_folder(folder_of(name))
        lineage = Lineage("benchmark", datetime.now(UTC), "0")
        versions.append(publish(registry, model, lineage, described).version)
    crown(registry, versions[0])
    return registry, versions


def crown(registry: Store, version: str) -> None:
    seen = current(registry)
    promote(registry, version, "benchmark", datetime.now(UTC), by="benchmark", seen=seen)


def measure(processes: int, changes: int, sent: list[Record]) -> Measured:
    """Change the model `changes` times while batches are detected."""
    found, settings = Measured(processes), DetectSettings(threads=1)

    @contextmanager
    def opened(model: VersionedModel, place: str) -> Iterator[PoolAtWork[Record, Outcome]]:
        pool = ProcessPool(RecordDetection(model, settings), place, processes)
        before = set(psutil.Process().children())
        with pool.opened() as engine:
            engine.wait_until_warm(threading.Event())
            new = set(psutil.Process().children()) - before
            found.load.append(sum(sum(one.cpu_times()[:2]) for one in new))
            yield engine

    def refused(refusal: Refusal) -> None:
        raise SystemExit(f"{refusal.version}: {refusal.error}")

    with tempfile.TemporaryDirectory() as folder:
        registry, versions = registry_with_models(folder)
        swap = ModelSwap(opened)
        start_with_champion(registry, swap, threading.Event(), refused)
        follower = ChampionFollower(registry, swap, threading.Event(), refused)
        detector = Detector(swap.model, settings, swap)
        batch = [*sent] * max(1, processes * IN_HAND // len(sent))
        worked = Worked(detector, batch, found)
        for i in range(changes):
            worked.batch()
            crown(registry, versions[(i + 1) % 2])
            loading = threading.Thread(target=follower.look)
            loading.start()
            n_batches = 0
            while not worked.batch():
                n_batches += 1
            found.meanwhile.append(n_batches * len(batch))
            loading.join()
        swap.close()
    return found


class Worked:
    """Batches of a detector, one after the other, and the times between them."""

    def __init__(self, detector: Detector, records: list[Record], found: Measured) -> None:
        self._detector = detector
        self._records = records
        self._found = found
        self._ended: float | None = None

    def batch(self) -> bool:
        """Detect a batch; return whether its model is another one than that of the last batch."""
        before, began = self._detector.context["model"], time.thread_time()
        self._detector.begin(self._records)
        spent = 1000 * (time.thread_time() - began)
        changed = self._detector.context["model"] != before
        for i, (_, outcome) in enumerate(self._detector.work(self._records)):
            now = time.perf_counter()
            if i == 0 and self._ended is not None:
                waited = 1000 * (now - self._ended)
                (self._found.changed if changed else self._found.same).append(waited)
            assert isinstance(outcome, Processed)
            took = outcome.facts["ms"]
            assert isinstance(took, dict)
            self._found.snapshot.append(sum(took.values()))
            self._ended = now
        if changed:
            self._found.begin.append(spent)
        return changed


HEAD = (
    "worker processes | ms per snapshot | ms between batches | the same, where the model changes | "
    "pause, ms | of it in the detector itself, ms of processor time | processor seconds to load, "
    "per process | snapshots detected while it loads"
)


def section(results: list[Measured]) -> str:
    """The table, and what it says."""
    rows = [
        (
            f"{one.processes}",
            f"{median(one.snapshot):.0f}",
            f"{median(one.same):.0f}",
            f"{median(one.changed):.0f}",
            f"**{one.pause:+.0f}**",
            f"{median(one.begin):.2f}",
            f"{median(one.load) / one.processes:.1f}",
            f"{median(one.meanwhile):.0f}",
        )
        for one in results
    ]
    table = "\n".join((HEAD, " | ".join(["---"] * 8), *map(" | ".join, rows)))
    machine = (
        f"Python {platform.python_version()}, load average {os.getloadavg()[0]:.1f} at the end"
    )
    return f"""{table}

Written by `python -m benchmarks.swap`: LFR graphs of 5,000 nodes, medians of
{len(results[0].changed)} changes between `lfr` and `gn`. "Between batches" is from the last
result of one batch to the first of the next, so at least the time of one snapshot. The processes
load on the same {os.cpu_count()} CPU cores. {machine}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--dry-run", action="store_true", help="print; leave the page as it is")
    arguments = parser.parse_args()
    sent = records()
    results = [measure(processes, arguments.changes, sent) for processes in (1, 2)]
    text = section(results)
    print(text)
    if not arguments.dry_run:
        write_section("registry.md", "swap.py", text)


if __name__ == "__main__":
    main()
