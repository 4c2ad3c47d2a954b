"""What `consume detect --processes 2` gains over one, with memory and without.

    python -m benchmarks.processes --data as733.parquet

Measures the processor time of each window; a simulation of the scheduler says what two idle cores
gain. With `--rates`, it also fills Apache Kafka, which runs on the same machine, with a backlog,
and detectors with one and with two processes work it off in turns, so that a busy moment hits both
alike; a rate counts from the first batch's results to the last one's. Interrupted, it continues
with the runs that the file of `--keep` does not hold.

Backlogs: AS days (SNAP's AS-733, in any form that `stream-icd produce as` reads), then drifting LFR
graphs, each as one graph and as six. Writes a section of docs/measured/running.md; the exit status
is 1 when results differ in one bit, or when other programs used more of the machine than the
figures stand: then the old section stays.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Literal

from benchmarks.shared.machine import BY_CLOCK, BY_CPU, Machine
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.streams.schedule import Cost, makespan
from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.sources.generated import drifting_lfr
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import apache_kafka, wait_until
from tests.testbed.fingerprint import fingerprint

COUNTS = (1, 2)
BATCH = 64
"""Snapshots in a transaction, of one process, too: the first one is slow, and hides work on the
next, the more the larger it is."""
Memory = Literal["auto", "off"]
MEMORY: tuple[Memory, ...] = ("auto", "off")
N_GRAPHS = 6
FIRST_BATCH_MS = 20  # a batch's results are sent within so long


@dataclass(frozen=True)
class Run:
    """A backlog worked off: snapshots a second, and SHA-256 of all results in order."""

    backlog: str
    memory: str
    processes: int
    round: int
    rate: float
    digest: str


def fill(settings: KafkaSettings, snapshots: Iterable[Snapshot]) -> None:
    with Publisher(settings) as publisher:
        for snapshot in snapshots:
            publisher.send(outgoing(SNAPSHOTS, encode_snapshot(snapshot)))


def work_off(
    settings: KafkaSettings, backlog: Backlog, memory: str, processes: int, round_: int
) -> Run:
    """Run a detector, in a group of its own, until it has found all results."""
    since = datetime.now(UTC)
    count = len(backlog.snapshots)
    options = ["--model", backlog.model, "--processes", str(processes), "--memory", memory]
    options += ["--batch", str(BATCH)]
    where = ["--group", f"benchmark-{time.time_ns()}", "-b", settings.bootstrap_servers]
    command = [
        sys.executable,
        "-m",
        "stream_icd.commands.cli",
        "consume",
        "detect",
        *options,
        *where,
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "detector.log"
        process = start_child(command, log)
        try:
            wait_until(lambda: detected(log) >= count, timeout_s=600, every_s=1)
        except AssertionError as error:
            raise SystemExit(f"the detector did not finish: {tail(log)}") from error
        finally:
            stop_children([process], 20)
    with open_reader(settings, COMMUNITIES, start=since, limit=count) as records:
        results = list(records)
    how = (backlog.name, memory, processes, round_)
    return Run(*how, rate_of(results), digest_of(results))


def detected(log: Path) -> int:
    return log.read_text().count('"event": "detected"')


def rate_of(results: list[Record]) -> float:
    """Snapshots a second, from when results were sent; those of a batch all at once."""
    times = sorted(result.timestamp_ms for result in results)
    after_first = sum(one > times[0] + FIRST_BATCH_MS for one in times)
    return after_first / (times[-1] - times[0]) * 1000


def digest_of(results: list[Record]) -> str:
    digest = hashlib.sha256()
    for result in sorted(
        results, key=lambda record: record.key or b""
    ):  # each graph's in their order
        digest.update(
            fingerprint(Message(result.key or b"", result.value or b"", result.headers)).encode()
        )
    return digest.hexdigest()


@dataclass(frozen=True)
class Backlog:
    """What it is, the model for it, and the snapshots."""

    name: str
    model: str
    snapshots: list[Snapshot]


def backlogs(data: Path, count: int) -> Iterator[Backlog]:
    """Each kind of graph, first as one graph, then as `N_GRAPHS`."""
    days = [snapshot for snapshot, _ in read_as_topology(data).snapshots]
    yield Backlog(f"AS, the last {count} days of AS-733", "as", days[-count:])
    each = count // N_GRAPHS
    same_days = [
        replace(day, graph=f"{day.graph}-{number}")
        for day in days[-each:]
        for number in range(N_GRAPHS)
    ]
    yield Backlog(f"AS, {N_GRAPHS} graphs of {each} days", "as", same_days)
    settings = LfrSettings(n_nodes=5000)
    one = drifting_lfr(0, count, settings).snapshots
    yield Backlog(
        f"drifting LFR, {count} windows of 5,000 nodes", "lfr", [window for window, _ in one]
    )
    several = [
        drifting_lfr(number, each, settings, graph=f"lfr-{number}").snapshots
        for number in range(N_GRAPHS)
    ]
    windows = [window for step in zip(*several, strict=True) for window, _ in step]
    yield Backlog(f"drifting LFR, {N_GRAPHS} graphs of {each} windows", "lfr", windows)


def missing(backlog: Backlog, rounds: int, runs: list[Run]) -> list[tuple[int, str, int]]:
    """Round, memory and processes of the runs that are not there yet."""
    there = {(run.round, run.memory, run.processes) for run in runs if run.backlog == backlog.name}
    return [how for how in product(range(rounds), MEMORY, COUNTS) if how not in there]


def compare(backlog: Backlog, rounds: int, keep: Path) -> None:
    """Add the missing runs to `keep`: with and without memory, one and two processes in turns."""
    if not (todo := missing(backlog, rounds, kept(keep))):
        return
    with apache_kafka() as broker:
        settings = broker.settings()
        create_topics(settings)
        fill(settings, backlog.snapshots)
        for number, memory, processes in todo:
            run = work_off(settings, backlog, memory, processes, number)
            with keep.open("a") as file:
                print(json.dumps(asdict(run)), file=file)
            print(run, flush=True)


def kept(keep: Path) -> list[Run]:
    return [Run(**json.loads(line)) for line in keep.read_text().splitlines()]


def costs(backlog: Backlog, memory: Memory) -> list[Cost]:
    """Processor time of each window, detected in this process."""
    settings = DetectSettings(memory=memory, memory_topic="memory", group="x", threads=1)
    work = RecordDetection(open_model(backlog.model), settings)
    work.warm_up()
    relays: dict[str, Relay] = defaultdict(Relay)
    found = []
    for at, snapshot in enumerate(backlog.snapshots):
        sent = outgoing(SNAPSHOTS, encode_snapshot(snapshot))
        record = Record(sent.topic, 0, at, 0, sent.key, sent.value, sent.headers)
        chain = snapshot.graph if memory == "auto" else None
        begun = time.process_time()
        work(record, None if chain is None else relays[chain])
        found.append(Cost(chain, time.process_time() - begun))
    return found


def time_row(backlog: Backlog, memory: Memory, of_windows: list[Cost]) -> str:
    """Processor time of a window, and what two cores gain by it."""
    one, two = (makespan(of_windows, count) for count in COUNTS)
    mean = 1000 * sum(cost.seconds for cost in of_windows) / len(of_windows)
    return f"{backlog.name} | {memory} | {mean:.0f} | **{one / two:.2f}**"


def time_table(all_backlogs: list[Backlog]) -> list[str]:
    """A row for each backlog, with and without memory."""
    return [
        "backlog | `--memory` | ms a window | gain of 2 processes",
        "--- | --- | --- | ---",
        *(
            time_row(backlog, memory, costs(backlog, memory))
            for backlog, memory in product(all_backlogs, MEMORY)
        ),
        "",
        "Milliseconds of processor time, means. The gain is that of two idle cores: the scheduler "
        "of the worker processes,",
        "simulated with these times. The broker, reading and publishing are left out.",
    ]


def row(name: str, memory: str, runs: list[Run]) -> str:
    """Rates and gain of one backlog; the gain is computed round by round."""
    rates = {
        count: {run.round: run.rate for run in runs if run.processes == count} for count in COUNTS
    }
    one, two = (rates[count] for count in COUNTS)
    gains = [two[number] / one[number] for number in one]
    return (
        f"{name} | {memory} | {statistics.median(one.values()):.1f} | "
        f"{statistics.median(two.values()):.1f} | "
        f"**{statistics.median(gains):.2f}** ({min(gains):.2f} to {max(gains):.2f})"
    )


def rate_table(runs: list[Run], rounds: int) -> list[str]:
    """A row for each backlog, with and without memory."""
    return [
        "",
        "backlog | `--memory` | 1 process, snapshots/s | 2 processes, snapshots/s | "
        "gain, median (range)",
        "--- | --- | --- | --- | ---",
        *(
            row(name, memory, [run for run in runs if (run.backlog, run.memory) == (name, memory)])
            for name, memory in dict.fromkeys((run.backlog, run.memory) for run in runs)
        ),
        "",
        f"Medians of {rounds} rounds that alternate between the two; the gain is computed per "
        "round. Apache Kafka and the",
        f"detector share {os.cpu_count()} CPU cores; exactly-once, up to {BATCH} snapshots in a "
        "transaction.",
        "Both publish the same bytes.",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--count", type=int, default=240, help="snapshots of each backlog")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, default=Path("processes.jsonl"), help="runs made")
    parser.add_argument(
        "--rates", action="store_true", help="measure on Kafka too: needs two idle cores"
    )
    options = parser.parse_args()
    machine = Machine(BY_CLOCK if options.rates else BY_CPU)
    all_backlogs = list(backlogs(options.data, options.count))
    runs: list[Run] = []
    lines = time_table(all_backlogs)
    if options.rates:
        options.keep.touch()
        for backlog in all_backlogs:
            compare(backlog, options.rounds, options.keep)
        runs = kept(options.keep)
        lines += rate_table(runs, options.rounds)
    lines += ["", "Written by `python -m benchmarks.processes`."]
    print("\n".join(lines))
    text = "\n".join((*lines, machine.stamp(), ""))
    write_section("measured/running.md", "processes.py", text)
    results = {(run.backlog, run.memory, run.digest) for run in runs}
    return int(len(results) > len({(run.backlog, run.memory) for run in runs}))


if __name__ == "__main__":
    sys.exit(main())
