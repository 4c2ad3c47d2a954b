"""One snapshot of ten million edges from end to end: how long, and how much memory.

    python -m benchmarks.big_snapshot --edges 10000000
    python -m benchmarks.big_snapshot --edges 10000000 --bootstrap-servers 127.0.0.1:9092

An LFR graph of mean degree 10, in a Parquet file. Three processes, the programs that users start:
`stream-icd produce files`, `stream-icd consume detect`, `stream-icd subscribe`; on the embedded
broker, unless another one is named. The snapshot is too big for a message; its communities just are
not. While it works on the snapshot the detector has a `max.poll.interval` of ten seconds, which
it outlasts by far. Writes its section of docs/measured/running.md. The exit status is 1, and
nothing is written, if the subscriber got communities other than those planted, or the detector
lost its partition.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.methods.quality.agreement import nmi

MODEL, MEAN_DEGREE, SEED = "lfr", 10, 9000
RESULT = "communities.arrows"
POLL_INTERVAL_S = 10.0
PATIENCE_S = 3600.0
SAMPLE_EVERY_S = 0.05
PROGRAMS = ("producer", "detector", "subscriber")
ENOUGH_NMI = 0.9
GENERATOR = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from benchmarks.growth import planted
graph = planted(int(sys.argv[1]))
pq.write_table(pa.table({"src": graph.edges[0], "dst": graph.edges[1]}), sys.argv[2])
np.save(sys.argv[3], graph.communities)
"""


@dataclass(frozen=True)
class Run:
    """What was measured of one snapshot.

    Attributes:
        seconds: of each stage, in their order.
        peak_mib: of each program: the most memory it had (VmHWM).
        object_bytes: sizes of snapshot and communities in the claim store.
        inline_bytes: sizes of their messages' values.
        nmi: of what the subscriber got, with what was planted.
        moved_on: how often the detector lost its partition while it was at work.
    """

    n_nodes: int
    n_edges: int
    n_communities: int
    seconds: dict[str, float]
    peak_mib: dict[str, float]
    object_bytes: tuple[int, ...]
    inline_bytes: tuple[int, ...]
    nmi: float
    moved_on: int


@dataclass
class Peaks:
    """The most memory of each process, looked up until it is gone."""

    mib: dict[str, float] = field(default_factory=dict)

    def watch(self, name: str, process: subprocess.Popen[bytes]) -> None:
        def look() -> None:
            while process.poll() is None:
                self.mib[name] = max(_peak_mib(process.pid), self.mib.get(name, 0.0))
                time.sleep(SAMPLE_EVERY_S)

        threading.Thread(target=look, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--bootstrap-servers", help="by default the embedded broker is started")
    chosen, machine = parser.parse_args(), Machine(BY_CLOCK)
    with (
        tempfile.TemporaryDirectory(prefix="stream-icd-big-") as folder,
        _servers(chosen.bootstrap_servers) as servers,
    ):
        found = measure(servers, chosen.edges, Path(folder))
    sys.stdout.write(f"{table(found)}\n")
    if found.nmi < ENOUGH_NMI or found.moved_on:
        sys.exit(f"NMI {found.nmi:.3f}; the partition was lost {found.moved_on} times")
    text = section(found, " ".join(sys.argv[1:]), machine.stamp())
    write_section("measured/running.md", "big_snapshot.py", text)


def measure(servers: str, n_edges: int, folder: Path, inline_bytes: int | None = None) -> Run:
    """Send one snapshot through the three programs.

    Args:
        inline_bytes: the most that a message may have; by default that of the settings.
    """
    settings = KafkaSettings(bootstrap_servers=servers)
    create_topics(settings)
    graph = f"big-{uuid.uuid4().hex[:8]}"
    truth = _generate(2 * n_edges // MEAN_DEGREE, folder)
    environment = {
        **os.environ,
        "STREAM_ICD_BOOTSTRAP_SERVERS": servers,
        "STREAM_ICD_CLAIMS_URI": str(folder / "claims"),
        "STREAM_ICD_MAX_POLL_INTERVAL_S": str(POLL_INTERVAL_S),
    }
    if inline_bytes is not None:
        environment["STREAM_ICD_MAX_MESSAGE_BYTES"] = str(inline_bytes)
    peaks = Peaks()
    began, received = _send(environment, graph, folder, peaks)
    messages = [_only(settings, topic, graph) for topic in (SNAPSHOTS, COMMUNITIES)]
    headers = {name: value.decode() for name, value in messages[1].headers}
    nodes, labels = _received(folder / RESULT)
    return Run(
        n_nodes=len(nodes),
        n_edges=int(headers["icd_n_edges"]),
        n_communities=int(headers["icd_k"]),
        seconds=_stages(began, received, messages, headers),
        peak_mib=peaks.mib,
        object_bytes=tuple(
            claim.n_bytes
            for message in messages
            if (claim := Claim.among(message.headers)) is not None
        ),
        inline_bytes=tuple(len(message.value or b"") for message in messages),
        nmi=nmi(truth[nodes], labels),
        moved_on=(folder / "detector.log").read_text().count("moved on"),
    )


def _send(
    environment: dict[str, str], graph: str, folder: Path, peaks: Peaks
) -> tuple[float, float]:
    """Run the three programs; when the producer was started, and when the subscriber was done."""
    sending = ("produce", "files", str(folder / "graphs"), "--graph", graph)
    with (
        (folder / RESULT).open("wb") as out,
        _program("detector", environment, folder, peaks, *_detect(graph)),
        _program("subscriber", environment, folder, peaks, *_follow(graph), out=out) as subscriber,
    ):
        _wait_for(folder / "detector.log", "started")
        began = time.time()
        with _program("producer", environment, folder, peaks, *sending) as producer:
            _check(producer.wait(PATIENCE_S), folder / "producer.log")
        _check(subscriber.wait(PATIENCE_S), folder / "subscriber.log")
        return began, time.time()


def _stages(
    began: float, received: float, messages: Sequence[Record], headers: Mapping[str, str]
) -> dict[str, float]:
    sent, published = (message.timestamp_ms / 1000 for message in messages)
    ready = datetime.fromisoformat(headers["icd_detected_at"]).timestamp()
    decode, cluster = (float(headers[f"icd_ms_{name}"]) / 1000 for name in ("decode", "cluster"))
    return {
        "produce: start, read the file, encode, store, send": sent - began,
        "detect: fetch and decode": decode,
        "detect: find communities": cluster,
        "detect: receive, compute quality": ready - sent - decode - cluster,
        "detect: encode, store, send": published - ready,
        "subscribe: receive, fetch, decode, write": received - published,
        "all": received - began,
    }


def _detect(graph: str) -> tuple[str, ...]:
    return "consume", "detect", "--model", MODEL, "--graph", graph, "--group", graph


def _follow(graph: str) -> tuple[str, ...]:
    options = ("--from", "beginning", "--limit", "1", "--format", "arrow")
    return "subscribe", "--graph", graph, *options


def _generate(n_nodes: int, folder: Path) -> np.ndarray:
    """Write the graph, in a process of its own; the communities that were planted."""
    (folder / "graphs").mkdir()
    file, truth = folder / "graphs" / "2026-01-31.parquet", folder / "truth.npy"
    subprocess.run([sys.executable, "-c", GENERATOR, str(n_nodes), file, truth], check=True)
    communities: np.ndarray = np.load(truth)
    return communities


@contextmanager
def _program(
    name: str,
    environment: dict[str, str],
    folder: Path,
    peaks: Peaks,
    *arguments: str,
    out: IO[bytes] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "stream_icd.commands.cli", *arguments)
    process = start_child(command, folder / f"{name}.log", env=environment, stdout=out)
    peaks.watch(name, process)
    try:
        yield process
    finally:
        stop_children([process], 20.0)


def _peak_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has ended
        return 0.0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(sizes[0]) / 1024 if sizes else 0.0


def _wait_for(log: Path, word: str) -> None:
    deadline = time.monotonic() + 60
    while word not in log.read_text():
        assert time.monotonic() < deadline, f"no {word!r} in {tail(log)}"
        time.sleep(0.1)


def _check(status: int, log: Path) -> None:
    assert status == 0, tail(log)


def _only(settings: KafkaSettings, topic: str, graph: str) -> Record:
    with open_reader(settings, topic, until="end") as records:
        (record,) = [one for one in records if one.key == graph.encode()]
    return record


def _received(file: Path) -> tuple[np.ndarray, np.ndarray]:
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    return table["node"].to_numpy(), table["community"].to_numpy()


@contextmanager
def _servers(named: str | None) -> Iterator[str]:
    if named:
        yield named
        return
    with embedded_broker() as broker:
        yield broker.bootstrap_servers


def table(run: Run) -> str:
    rows = [
        f"{run.n_edges:,} edges, {run.n_nodes:,} nodes; {run.n_communities:,} communities "
        f"found; their NMI with the true ones is {run.nmi:.3f}. Size in the claim store: "
        + (", ".join(f"{size / 1e6:.1f} MB" for size in run.object_bytes) or "nothing")
        + ".",
        "",
        "| stage | seconds |",
        "| --- | --- |",
        *(f"| {stage} | {seconds:.1f} |" for stage, seconds in run.seconds.items()),
        "",
        "| program | peak memory, MiB |",
        "| --- | --- |",
        *(f"| {name} | {run.peak_mib[name]:,.0f} |" for name in PROGRAMS),
    ]
    return "\n".join(rows)


def section(run: Run, arguments: str, stamp: str) -> str:
    return f"""Made by `python -m benchmarks.big_snapshot {arguments}`: an LFR graph of mean
degree {MEAN_DEGREE} from a Parquet file, sent with `stream-icd produce files`, detected with
`stream-icd consume detect --model {MODEL}` and received with
`stream-icd subscribe --format arrow`, one process each. The detector's `max.poll.interval` was
{POLL_INTERVAL_S:.0f} s, and it kept its partition. {stamp}

{table(run)}

The detector needs its peak memory to find the communities ([growth.md](growth.md)). It
fetches and decodes within 700 MiB, of which 200 are Python and its libraries.
"""


if __name__ == "__main__":
    main()
