"""Memory of a tracker and of an archive, by the size of graphs and their number.

    python -m benchmarks.worker_memory

Sends graphs of 10,000 and 100,000 nodes and of five times as many edges, and their communities, to
Apache Kafka on this machine, lets `stream-icd consume track` and `archive` read them, and writes
the peaks of their resident memory to docs/measured/running.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.shared.page import COMMAND, PATIENCE_S, STOP_S
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.child_process import start_child, stop_children
from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.errors import BrokerUnavailable
from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics, positions
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed import brokers
from tests.testbed.brokers import wait_until

CASES = ((10_000, 1, False), (100_000, 1, False), (100_000, 8, False), (100_000, 1, True))
"""Nodes, graphs, and whether ids are texts."""
WINDOWS = 16
DEGREE = 10
SIZE = 60
MOVED = 0.01
START = datetime(2026, 1, 1, tzinfo=UTC)
WORKERS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "tracker": (("track",), {COMMUNITIES: "stream-icd-track"}),
    "archive": (
        ("archive", "{folder}/history"),
        {topic: f"stream-icd-archive-{topic}" for topic in (SNAPSHOTS, COMMUNITIES)},
    ),
}
"""How each is started, and the topics that it must have read, with the group."""


def ids(n: int, *, texts: bool) -> pa.Array:
    numbers = pa.array(np.arange(n))
    return pa.array([f"host-{one:08}" for one in range(n)]) if texts else numbers


def results(n: int, graph: str, *, texts: bool) -> Iterator[Communities]:
    """Communities of `SIZE` nodes; in each window some nodes move."""
    rng = np.random.default_rng(0)
    nodes, k = ids(n, texts=texts), n // SIZE
    labels = (np.arange(n) % k).astype(np.int32)
    for at in range(WINDOWS):
        window = Window(START + timedelta(minutes=at), START + timedelta(minutes=at + 1))
        yield Communities(
            graph, f"{graph}/{at:06}", window, nodes, labels, n * DEGREE // 2, "benchmark@1", 0.5,
            20.0, dict.fromkeys(STAGES, 5.0), window.end, revision="1",
        )  # fmt: skip
        labels = labels.copy()
        labels[rng.integers(k, n, round(MOVED * n))] = rng.integers(0, k, round(MOVED * n))


def publish(settings: KafkaSettings, n: int, n_graphs: int, *, texts: bool) -> None:
    """Send the communities and the graph of all windows; the edges are the same in each."""
    rng = np.random.default_rng(1)
    nodes = ids(n, texts=texts)
    src, dst = (nodes.take(pa.array(rng.integers(0, n, n * DEGREE // 2))) for _ in range(2))
    window = Window(START, START + timedelta(minutes=1))
    edges = snapshot_from_pairs(src, dst, graph="graph0", id="0", window=window)
    streams = [results(n, f"graph{at}", texts=texts) for at in range(n_graphs)]
    with Publisher(settings) as publisher:
        for of_window in zip(*streams, strict=True):
            for one in of_window:
                found = replace(edges, graph=one.graph, id=one.snapshot_id, window=one.window)
                publisher.send(outgoing(SNAPSHOTS, encode_snapshot(found)))
                publisher.send(outgoing(COMMUNITIES, encode_communities(one)))
            publisher.flush()


def peak(pid: int) -> float:
    """The most resident memory that a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measured(settings: KafkaSettings, folder: Path, worker: str, n_records: int) -> float:
    """The peak of a worker that reads all records."""
    arguments, topics = WORKERS[worker]
    command = ("consume", *(argument.format(folder=folder) for argument in arguments))
    environment = os.environ | {"STREAM_ICD_BOOTSTRAP_SERVERS": settings.bootstrap_servers}
    child = start_child((*COMMAND, *command), folder / f"{worker}.log", env=environment)

    def done() -> bool:
        for topic, group in topics.items():
            with suppress(BrokerUnavailable):  # nobody has joined the group yet
                if sum(positions(settings, topic, group).values()) >= n_records:
                    continue
            return False
        return True

    try:
        wait_until(done, PATIENCE_S)
        return peak(child.pid)
    finally:
        stop_children([child], STOP_S)


def main() -> int:
    """Measure all cases, and write the section."""
    rows = []
    for n, n_graphs, texts in CASES:
        with brokers.OPENERS["kafka"]() as broker, tempfile.TemporaryDirectory() as folder:
            settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            create_topics(settings)
            publish(settings, n, n_graphs, texts=texts)
            found = [
                measured(settings, Path(folder), worker, WINDOWS * n_graphs) for worker in WORKERS
            ]
        kind = "texts" if texts else "integers"
        rows.append(f"{n:,} | {n_graphs} | {kind} | {found[0]:.0f} | {found[1]:.0f}")
        print(rows[-1], flush=True)
    head = ["nodes | graphs | ids | tracker, MiB | archive, MiB", "--- | --- | --- | --- | ---"]
    write_section("measured/running.md", "worker_memory", "\n".join([*head, *rows, ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
