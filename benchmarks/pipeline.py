"""What the pipe adds to detection: seconds a snapshot, end-to-end latency, and the codec's speed.

    python -m benchmarks.pipeline --data as733.parquet

Daily AS topologies (SNAP's AS-733, in any form that `stream-icd produce as` reads) wait in a topic
of Apache Kafka, and of the embedded broker, and a detector works them off, with memory and without,
in turns with bare detection of the same snapshots. Then snapshots come at a fixed rate: from
sending one until a reader of committed records has its communities, and in which stages that time
passes. Then without a broker: what a worker process and the codec cost. Writes
docs/measured/pipeline.md, in ten minutes; the exit status is 1 when the pipe adds more than 3 ms to
detection on Apache Kafka, or when other programs used the machine meanwhile: then the old page
stays.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import structlog

from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.pages.sections import MEASURED
from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.records import Outcome, outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.methods.memory.recent import RecentMemories
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.detection.snapshot import SnapshotMemory, detect_snapshot
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.testbed.brokers import OPENERS, Broker

MODEL = "as"
ALLOWED_MS = 3.0
RATES = {1: 120, 10: 600, 50: 2000}
"""Snapshots a second, and how many of them are sent."""
SNAPSHOTS_TO_START = 48
"""The first ones are not counted: batches are small and processes cold."""
Memory = Literal["auto", "off"]
Timed = dict[str, Any]
"""A line of `benchmarks.shared.streams.timed_detector`."""


def bare(model: VersionedModel, snapshots: Iterable[Snapshot], memory: Memory) -> Iterator[float]:
    """Yield the CPU ms of each detection: evidence and measures, but nothing encoded."""
    settings, recent, relay = (
        DetectSettings(memory=memory, threads=1),
        RecentMemories(),
        Relay(),
    )
    for number, snapshot in enumerate(snapshots):
        began = time.process_time()
        remembering = SnapshotMemory(relay, settings, recent)
        detect_snapshot(snapshot, model, settings, memory=remembering if memory == "auto" else None)
        yield 1000 * (time.process_time() - began)
        if remembering.after is not None:
            relay.memory = str(number).encode()  # stands for the memory, which is not encoded
            recent.put(snapshot.graph, relay.memory or b"", remembering.after)


class Detector:
    """A detector in a process of its own, and what it said so far."""

    def __init__(self, broker: Broker, memory: Memory, folder: Path) -> None:
        program = "benchmarks.shared.streams.timed_detector"
        group = f"pipeline-{memory}-{time.time_ns()}"
        command = (
            sys.executable,
            "-m",
            program,
            broker.bootstrap_servers,
            group,
            MODEL,
            memory,
            "1",
        )
        self._log = folder / "detector.log"
        self._child = start_child(command, self._log, stdout=subprocess.PIPE)
        self._lines = SimpleQueue[str]()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """Read what it prints at once: it waits when 64 KiB have not been read."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put("")

    def batches(self, count: int) -> Iterator[Timed]:
        """Yield batches until they have `count` records."""
        while count > 0:
            line = self._lines.get()
            if not line:
                raise SystemExit(f"the detector ended: {tail(self._log)}")
            yield (batch := json.loads(line))
            count -= len(batch["outcomes"])

    def stop(self) -> None:
        """End it."""
        stop_children([self._child], 20)


@contextmanager
def detector(broker: Broker, memory: Memory) -> Iterator[Detector]:
    """Start a detector, and stop it at the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        started = Detector(broker, memory, Path(folder))
        try:
            yield started
        finally:
            started.stop()


@dataclass(frozen=True)
class Turn:
    """A backlog worked off: ms a snapshot, by the clock and of processor time."""

    wall: float
    bare_cpu: float
    worker_cpu: float
    main_cpu: float

    @property
    def added(self) -> float:
        """What the pipe adds; detection is counted in processor time, as it waits for nothing."""
        return self.wall - self.bare_cpu


def turn(
    broker: Broker, model: VersionedModel, snapshots: Sequence[Snapshot], memory: Memory
) -> Turn:
    """All snapshots over the broker, then bare; from some committed batch to the last one."""
    with detector(broker, memory) as one:
        batches = list(one.batches(len(snapshots)))
    done = np.cumsum([len(batch["outcomes"]) for batch in batches])
    start = int(np.searchsorted(done, SNAPSHOTS_TO_START))
    began, ended, count = batches[start], batches[-1], int(done[-1] - done[start])
    times = list(bare(model, snapshots, memory))
    wall, worker, main = (
        1000 * (ended[name] - began[name]) / count for name in ("done", "cpu_workers", "cpu_main")
    )
    return Turn(wall, float(np.mean(times[len(snapshots) - count :])), worker, main)


def fill(settings: KafkaSettings, snapshots: Iterable[Snapshot]) -> None:
    with Publisher(settings) as publisher:
        for snapshot in snapshots:
            publisher.send(outgoing(SNAPSHOTS, encode_snapshot(snapshot)))


def backlog_row(broker: str, memory: Memory, turns: Sequence[Turn]) -> str:
    middle = sorted(turns, key=lambda one: one.added)[len(turns) // 2]
    added = " ".join(f"{one.added:.1f}" for one in turns)
    return (
        f"{broker} | {memory} | {middle.bare_cpu:.1f} | {middle.worker_cpu:.1f} | "
        f"{middle.main_cpu:.1f} | {middle.wall:.1f} | {added} | {1000 / middle.wall:.0f}"
    )


STAGES = ("to the detector", "decode", "detect", "rest", "batch and commit", "to the reader")


def at_rate(broker: Broker, snapshots: Sequence[Snapshot], a_second: float) -> str:
    """Send snapshots at a rate to a detector that is at work; a row of the table."""
    settings, first = broker.settings(), snapshots[0]
    messages = [outgoing(SNAPSHOTS, encode_snapshot(snapshot)) for snapshot in snapshots]
    sent: list[float] = []
    with detector(broker, "auto") as one, open_reader(settings, COMMUNITIES) as results:
        with Publisher(settings) as publisher:
            publisher.send(outgoing(SNAPSHOTS, encode_snapshot(replace(first, graph="first"))))
            list(one.batches(1))  # it has joined and is warm
            next(results)

            def send() -> None:
                start = time.time()
                for number, message in enumerate(messages):
                    time.sleep(max(0.0, start + number / a_second - time.time()))
                    sent.append(time.time())
                    publisher.send(message)

            sender = threading.Thread(target=send)
            sender.start()
            found = [(next(results), time.time()) for _ in messages]
            sender.join()
        batches = list(one.batches(len(messages)))
    handed = np.array([(b["begun"], at, b["done"]) for b in batches for at in b["outcomes"]])
    said = [dict(result.headers) for result, _ in found]
    decode, cluster = (
        np.array([sum(float(one[f"icd_ms_{part}"]) for part in parts) for one in said])
        for parts in (("decode",), ("features", "encode", "cluster"))
    )
    begun, ready, done = 1000 * handed.T
    since, until = 1000 * np.array(sent), 1000 * np.array([at for _, at in found])
    parts = (begun - since, decode, cluster, ready - begun - decode - cluster, done - ready)
    shares = [float(np.mean(part)) for part in (*parts, until - done)]
    p50, p99, p999 = np.percentile(until - since, [50, 99, 99.9])
    cells = " | ".join(f"{share:.1f}" for share in shares)
    return f"{a_second} | {len(sent)} | {p50:.1f} | {p99:.1f} | {p999:.1f} | {cells}"


def handed_over(model: VersionedModel, snapshots: Sequence[Snapshot]) -> str:
    """Snapshots decoded, detected and encoded in this process, and in a worker process in turns."""
    work, times = RecordDetection(model, DetectSettings(threads=1)), []
    here = InProcess(work)
    with Processes(work, MODEL, 1) as there:
        there.wait_until_warm(threading.Event())
        for number, snapshot in enumerate(snapshots):
            message = encode_snapshot(snapshot)
            record = Record("t", 0, number, 0, message.key, message.value, message.headers)
            times.append([best_ms(partial(once, engine, record)) for engine in (here, there)])
    inside, outside = np.array(times).T
    added = outside - inside
    cells = np.median(inside), np.median(outside), np.median(added), np.percentile(added, 95)
    return " | ".join(f"{cell:.2f}" for cell in cells)


def once(engine: Engine[Record, Outcome], record: Record) -> None:
    """Detect one snapshot."""
    list(engine([record], Relay.empty))


def codec_row(name: str, snapshots: Sequence[Snapshot]) -> str:
    """The mean over snapshots, the best of five of each."""
    rows = []
    for snapshot in snapshots:
        message = encode_snapshot(snapshot)
        assert decode_snapshot(message.key, message.value, message.headers) == snapshot
        raw = pa.ipc.open_stream(message.value).read_all().nbytes
        encode = best_ms(partial(encode_snapshot, snapshot))
        decode = best_ms(partial(decode_snapshot, message.key, message.value, message.headers))
        rows.append((raw, len(message.value), encode, decode))
    raw, sent, encode, decode = np.mean(rows, axis=0)
    speeds = (f"{raw / ms / 1000:.0f} / {sent / ms / 1000:.0f}" for ms in (encode, decode))
    sizes = f"{raw / 1024:.0f} | {sent / 1024:.0f}"
    return f"{name} | {sizes} | {encode:.2f} | {decode:.2f} | {' | '.join(speeds)}"


def best_ms(function: Callable[[], object]) -> float:
    def once() -> float:
        started = time.perf_counter()
        function()
        return 1000 * (time.perf_counter() - started)

    return min(once() for _ in range(5))


def stream_of(snapshots: Sequence[Snapshot], count: int) -> list[Snapshot]:
    """Return `count` snapshots: those given, then the same as other graphs."""
    rounds = itertools.count()
    again = (
        replace(snapshot, graph=f"{snapshot.graph}-{number}")
        for number in rounds
        for snapshot in snapshots
    )
    return list(itertools.islice(again, count))


def page(
    days: int,
    backlog: Sequence[str],
    rates: Sequence[str],
    fence: str,
    codec: Sequence[str],
    stamp: str,
) -> str:
    """docs/measured/pipeline.md."""
    lines = "\n".join
    return f"""# What the stream adds to detection

For those who plan capacity: how much time Kafka and the message format add to the detection itself.

Made by `python -m benchmarks.pipeline --data as733.parquet`: {days} AS snapshots, model `{MODEL}`,
method bp on one thread, one worker process. Times are milliseconds per snapshot. {stamp}

- *bare*: processor time of `detect_snapshot` alone in one process, with evidence and measures; with
  memory, that of the window before is there and nothing is encoded.
- *worker process*, *main process*: processor time of the two processes of a detector.
- *piped*: the whole way through the broker, as `stream-icd consume detect` does it, by the clock.
- *added*: piped minus bare.

## With a backlog

The detector reads, decodes, detects, encodes, publishes and commits, with up to 16 snapshots per
transaction: exactly-once on Apache Kafka, at-least-once on the embedded broker. Rounds alternate
between bare and piped; the table shows the round with the median overhead. The limit on Apache
Kafka is {ALLOWED_MS:g} ms. The detector's main process reads and publishes while its worker process
is at the next batch, so the two add up only where one core does both.

broker | memory | bare | worker process | main process | piped | added, each round | snapshots/s
--- | --- | --- | --- | --- | --- | --- | ---
{lines(backlog)}

## At a fixed rate

Apache Kafka, with memory. From `send` until a reader of committed records has the communities:
percentiles, and means of the stages. *To the detector*: sending, waiting for the batch before,
fetching. *Rest*: waiting for others of the batch, encoding, and the way to the worker process and
back. *Batch and commit*: the rest of the batch, and its transaction. (With {RATES[1]} snapshots,
the last percentile is their maximum.)

a second | sent | 50 % | 99 % | 99.9 % | {" | ".join(STAGES)}
--- | --- | --- | --- | --- | {" | ".join("---" for _ in STAGES)}
{lines(rates)}

`stream-icd demo` shows as *publish* what is here *batch and commit* and *to the reader*: of a
backlog, that includes waiting for the other snapshots of the batch, which are published together.

## The worker process

What a worker process that is watched from outside adds
([security.md](../security.md#a-budget-for-each-snapshot)): snapshots are decoded, detected and
encoded in this process and in a worker process, without a broker and memory, best of five each.

this process, median ms | worker process | added, median | 95 %
--- | --- | --- | ---
{fence}

## Encoding and decoding

`encode_snapshot` and `decode_snapshot`, best of five each, with checks and canonical form. *Raw* is
the table in memory, *wire* the message's value. Speeds are MB (10^6 bytes) per second of raw / wire
bytes.

snapshot | raw KiB | wire KiB | encode ms | decode ms | encode MB/s | decode MB/s
--- | --- | --- | --- | --- | --- | ---
{lines(codec)}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--days", type=int, default=300)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the snapshots at each rate")
    options = parser.parse_args()
    machine = Machine(BY_CLOCK)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    source = read_as_topology(options.data).snapshots
    snapshots = [snapshot for snapshot, _ in itertools.islice(source, options.days)]
    model = open_model(MODEL)
    list(bare(model, snapshots[:2], "auto"))  # compiles, or loads what was compiled
    backlog: dict[tuple[str, Memory], list[Turn]] = {}
    for name in ("kafka", "embedded"):
        with OPENERS[name]() as broker:
            create_topics(broker.settings())
            fill(broker.settings(), snapshots)
            for memory in ("auto", "off"):
                turns = [turn(broker, model, snapshots, memory) for _ in range(options.turns)]
                backlog[name, memory] = turns
                print(backlog_row(name, memory, turns), flush=True)
    rates = []
    for rate, count in RATES.items():
        with OPENERS["kafka"]() as broker:
            create_topics(broker.settings())
            sent = stream_of(snapshots, max(20, int(options.share * count)))
            rates.append(at_rate(broker, sent, rate))
            print(rates[-1], flush=True)
    fence = handed_over(model, snapshots[:: max(1, len(snapshots) // 100)])
    codec = [codec_row(f"AS, {len(snapshots)} days", snapshots)]
    print(fence, codec[0], sep="\n", flush=True)
    rows = [backlog_row(*key, turns) for key, turns in backlog.items()]
    text = page(len(snapshots), rows, rates, fence, codec, machine.stamp())
    (MEASURED / "pipeline.md").write_text(text, encoding="utf-8")
    return int(min(one.added for one in backlog["kafka", "auto"]) > ALLOWED_MS)


if __name__ == "__main__":
    sys.exit(main())
