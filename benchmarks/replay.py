"""How fast the past is detected again, by engine, and that each gives what the stream gave.

    python benchmarks/replay.py --data as733.parquet

Archives daily AS topologies (SNAP's AS-733, in any form that `stream-icd produce as` reads),
detects them on a stream over the embedded broker, and again from the archive with each engine.
Rounds take turns, so that a busy moment hits all engines alike; the best round counts. Writes
docs/measured/replay.md; the exit status is 1 when an engine's results differ from the stream's in
one bit, or when other programs used the machine meanwhile: then the old page stays.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import structlog

from benchmarks.shared.machine import BY_CLOCK, Machine
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.history.replay.ray_engine import RayActors
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.find import open_model
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.fingerprint import fingerprint
from tests.testbed.handlers import Calls

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "replay.md"
MODEL = "as"


@dataclass(frozen=True)
class Run:
    """One way through all windows.

    Attributes:
        seconds: from the beginning to the last result, start of processes included.
        at_work: from the first result to the last.
        digest: of the fingerprints of all results, in order.
    """

    windows: int
    seconds: float
    at_work: float
    digest: str

    @property
    def rate(self) -> float:
        return self.windows / self.seconds

    @property
    def rate_at_work(self) -> float:
        return (self.windows - 1) / self.at_work


def timed(results: Iterable[Message]) -> Run:
    """Take the results as they come."""
    started, first, count = time.perf_counter(), 0.0, 0
    digest = hashlib.sha256()
    for result in results:
        first = first or time.perf_counter()
        digest.update(fingerprint(result).encode())
        count += 1
    ended = time.perf_counter()
    return Run(count, ended - started, ended - first, digest.hexdigest())


def archived(messages: list[Message], store: Store) -> float:
    """Keep all messages; windows a second."""
    archive, started = Archive(store), time.perf_counter()
    for message in messages:
        archive.add("snapshots", message)
    return len(messages) / (time.perf_counter() - started)


def streamed(messages: list[Message], redetection: Redetection) -> Run:
    """Over a broker: sent, detected by one worker, and read back."""
    with embedded_broker() as broker:
        settings = KafkaSettings(
            bootstrap_servers=broker.bootstrap_servers,
            session_timeout_s=3,
            heartbeat_interval_s=0.3,
        )
        create_topics(settings)
        with Publisher(settings) as publisher:
            for message in messages:
                publisher.send(
                    OutgoingRecord(SNAPSHOTS, message.value, message.key, message.headers)
                )
        worker = threading.Thread(target=detect_all, args=(settings, redetection, len(messages)))
        worker.start()
        with open_reader(settings, COMMUNITIES, limit=len(messages)) as records:
            run = timed(Message(r.key or b"", r.value or b"", r.headers) for r in records)
        worker.join()
    return run


def detect_all(settings: KafkaSettings, redetection: Redetection, count: int) -> None:
    stop, done = threading.Event(), [0]
    detector = Detector(lambda: redetection.model, redetection.settings)
    runner = Runner(detector, DeadLetterLimit())

    def on_done(batch: BatchDone) -> None:
        done[0] += len(batch.records)
        if done[0] >= count:
            stop.set()

    run_consumer(
        settings,
        SNAPSHOTS,
        "benchmark",
        Calls(runner.handle, done=on_done),
        stop,
        delivery="at-least-once",
    )


def replayed(store: Store, engine: Engine[ReplayJob, ReplayOutcome]) -> Run:
    """From the archive."""
    jobs = (ReplayJob.of_archived(store.uri, noted) for noted in Archive(store).windows())

    def results() -> Iterator[Message]:
        for job, outcome in engine(jobs, Relay.empty):
            assert isinstance(outcome, Message), f"{job.snapshot_id}: {outcome}"
            yield outcome

    return timed(results())


def best(runs: list[Run]) -> Run:
    assert len({run.digest for run in runs}) == 1, "an engine disagrees with itself"
    return max(runs, key=lambda run: run.rate_at_work)


def page(days: int, rounds: int, archive_rate: float, found: dict[str, Run], stamp: str) -> str:
    """docs/measured/replay.md."""
    rows = [
        f"{name} | {run.rate_at_work:.1f} | {run.rate:.1f} | `{run.digest[:16]}`"
        for name, run in found.items()
    ]
    return "\n".join(
        (
            "# Speed of replay",
            "",
            "For those who choose an engine for a [replay](../history.md): how fast each one is, "
            "and that all give the",
            "same results.",
            "",
            "Written by `python -m benchmarks.replay --data as733.parquet`: "
            f"{days} AS days, model `{MODEL}`, method bp.",
            f"The best of rounds that alternate between the engines ({rounds}). Archiving took "
            f"{archive_rate:.0f} windows/s,",
            f"each synchronised to disk. {stamp}",
            "",
            "engine | windows/s, first to last result | windows/s, with start | "
            "SHA-256 of all results",
            "--- | --- | --- | ---",
            *rows,
            "",
            "The start includes processes, imports and models. The SHA-256 covers nodes, "
            "communities, quality and",
            "names of all results, in order. Equal values mean equal bits.",
            "",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--days", type=int, default=733)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    machine = Machine(BY_CLOCK, watch_s=0.2)
    quiet = structlog.make_filtering_bound_logger(logging.WARNING)
    structlog.configure(wrapper_class=quiet)
    source = read_as_topology(options.data).snapshots
    messages = [
        encode_snapshot(snapshot)
        for (snapshot, _), _ in zip(source, range(options.days), strict=False)
    ]
    redetection = Redetection(open_model(MODEL), DetectSettings(threads=1))
    n = options.workers
    engines: dict[str, Engine[ReplayJob, ReplayOutcome]] = {
        "serial": InProcess(redetection),
        f"pool of {n}": in_processes(redetection, MODEL, n),
    }
    if find_spec("ray"):
        engines[f"Ray, {n} actors"] = RayActors(redetection, n)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        archive_rate = archived(messages, store)
        ways: dict[str, Callable[[], Run]] = {
            "stream, one worker": lambda: streamed(messages, redetection)
        }
        for name, engine in engines.items():
            ways[name] = lambda engine=engine: replayed(store, engine)  # type: ignore[misc]
        runs: dict[str, list[Run]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                runs[name].append(way())
                print(name, runs[name][-1], flush=True)
    found = {name: best(of_way) for name, of_way in runs.items()}
    text = page(len(messages), options.rounds, archive_rate, found, machine.stamp())
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE.read_text())
    return int(len({run.digest for run in found.values()}) > 1)


if __name__ == "__main__":
    sys.exit(main())
