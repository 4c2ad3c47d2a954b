"""What a second detector gains: two, each on a core of its own, beside one on one core.

    python -m benchmarks.scale_out --data as733.parquet

Fills the six partitions of Apache Kafka, which runs on the same machine, with a backlog of six
graphs: AS days (SNAP's AS-733, in any form that `stream-icd produce as` reads), then LFR graphs.
One detector and two detectors work it off in turns, so that a busy moment hits both alike; the
group waits until all have joined, and a rate counts from the first batch's results to the last
one's. Writes a section of docs/measured/running.md; the exit status is 1 when the results differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.processes import FIRST_BATCH_MS, backlogs, detected
from benchmarks.shared.family import cpu_seconds
from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.child_process import start_child, stop_children
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import Broker, apache_kafka, wait_until
from tests.testbed.fingerprint import fingerprint

PARTITIONS = 6
JOIN_MS = 3000  # Kafka's own default for how long a new group waits for more members
COUNTS = (1, 2)


@dataclass(frozen=True)
class Run:
    """A backlog worked off.

    Attributes:
        rate: snapshots a second.
        detector_ms: CPU time of the detectors for each snapshot, after their start.
        broker_ms: the broker's, in the same time.
        fingerprints: of all results, in any order.
    """

    rate: float
    detector_ms: float
    broker_ms: float
    fingerprints: frozenset[str]


def fill(settings: KafkaSettings, snapshots: Sequence[Snapshot]) -> None:
    """One graph a partition, each with every sixth snapshot: all of them are as much work."""
    length = len(snapshots) // PARTITIONS
    with Publisher(settings) as publisher:
        for i in range(length):
            for number in range(PARTITIONS):
                snapshot = snapshots[i * PARTITIONS + number]
                named = replace(snapshot, graph=f"graph-{number}", id=f"graph-{number}/{i}")
                record = outgoing(SNAPSHOTS, encode_snapshot(named))
                publisher.send(replace(record, partition=number))


def work_off(broker: Broker, model: str, detectors: int, count: int) -> Run:
    """Run so many detectors, in a group of their own, until they have found `count` results."""
    since, broker_pid = datetime.now(UTC), broker.pid
    assert broker_pid is not None, "it is a process on this machine"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as programs:
        logs = [Path(folder) / f"{core}.log" for core in range(detectors)]
        group = f"benchmark-{time.time_ns()}"
        started = [start(broker, model, group, core, log) for core, log in enumerate(logs)]
        for one in started:
            programs.callback(stop_children, [one], 20)
        wait_until(lambda: all(map(detected, logs)), timeout_s=60)
        done = sum(map(detected, logs))
        detectors_s, broker_s = total_s(started), cpu_seconds(broker_pid)
        wait_until(lambda: sum(map(detected, logs)) >= count, timeout_s=600, every_s=0.5)
        detectors_s, broker_s = total_s(started) - detectors_s, cpu_seconds(broker_pid) - broker_s
    with open_reader(broker.settings(), COMMUNITIES, start=since, limit=count) as records:
        results = list(records)
    times = sorted(result.timestamp_ms for result in results)
    after_first = sum(one > times[0] + FIRST_BATCH_MS for one in times)
    return Run(
        rate=after_first / (times[-1] - times[0]) * 1000,
        detector_ms=1000 * detectors_s / (count - done),
        broker_ms=1000 * broker_s / (count - done),
        fingerprints=frozenset(
            fingerprint(Message(result.key or b"", result.value or b"", result.headers))
            for result in results
        ),
    )


def start(broker: Broker, model: str, group: str, core: int, log: Path) -> subprocess.Popen[bytes]:
    """A detector that keeps to one core."""
    options = ("--model", model, "--group", group)
    where = ("-b", broker.bootstrap_servers)
    program = (
        sys.executable,
        "-m",
        "stream_icd.commands.cli",
        "consume",
        "detect",
        *options,
        *where,
    )
    process = start_child(program, log)
    os.sched_setaffinity(process.pid, {sorted(os.sched_getaffinity(0))[core]})
    return process


def total_s(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    return sum(cpu_seconds(process.pid) for process in processes)


def compared(model: str, snapshots: Sequence[Snapshot], rounds: int) -> dict[int, list[Run]]:
    """Runs with each number of detectors, in turns, after a round that warms the broker up."""
    count = len(snapshots) // PARTITIONS * PARTITIONS
    runs: dict[int, list[Run]] = {number: [] for number in COUNTS}
    with apache_kafka(group_initial_rebalance_delay_ms=str(JOIN_MS)) as broker:
        create_topics(broker.settings())
        fill(broker.settings(), snapshots)
        for _ in range(rounds + 1):
            for number in COUNTS:
                runs[number].append(work_off(broker, model, number, count))
                print(model, number, shown(runs[number][-1]), flush=True)
    return {number: many[1:] for number, many in runs.items()}


def shown(run: Run) -> str:
    return f"{run.rate:.1f}/s, {run.detector_ms:.1f} + {run.broker_ms:.1f} ms of CPU"


def row(name: str, runs: dict[int, list[Run]]) -> str:
    one, two = ([run.rate for run in runs[number]] for number in COUNTS)
    gains = [more / less for less, more in zip(one, two, strict=True)]
    cpu = [
        f"{statistics.median(r.detector_ms for r in runs[number]):.1f} + "
        f"{statistics.median(r.broker_ms for r in runs[number]):.1f}"
        for number in COUNTS
    ]
    return (
        f"{name} | {statistics.median(one):.1f} | {statistics.median(two):.1f} | "
        f"**{statistics.median(gains):.2f}** ({min(gains):.2f} to {max(gains):.2f}) | "
        f"{cpu[0]} | {cpu[1]}"
    )


def section(found: dict[str, dict[int, list[Run]]], rounds: int, stamp: str) -> str:
    """The table, and how it was made."""
    return "\n".join(
        (
            "backlog of six graphs, in six partitions | 1 detector, snapshots/s | 2 detectors, "
            "snapshots/s | gain, median (range) | CPU ms per snapshot, detector + broker: "
            "1 detector | 2 detectors",
            "--- | --- | --- | --- | --- | ---",
            *(row(name, runs) for name, runs in found.items()),
            "",
            f"Written by `python -m benchmarks.scale_out`. Medians of {rounds} rounds that "
            "alternate between the two; the gain is",
            "computed per round. Each detector has its own core, and Apache Kafka shares these "
            "cores; exactly-once. Both",
            "publish the same bytes. If the broker has its own cores, a second detector gains "
            "more.",
            stamp,
            "",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--count", type=int, default=720, help="snapshots of each backlog")
    parser.add_argument("--rounds", type=int, default=5)
    options, machine = parser.parse_args(), Machine(BY_CLOCK)
    several_graphs = list(backlogs(options.data, options.count))[1::2]
    found = {
        backlog.name: compared(backlog.model, backlog.snapshots, options.rounds)
        for backlog in several_graphs
    }
    print(*(row(name, runs) for name, runs in found.items()), sep="\n", flush=True)
    text = section(found, options.rounds, machine.stamp())
    write_section("measured/running.md", "scale_out.py", text)
    results = [
        {run.fingerprints for runs in one.values() for run in runs} for one in found.values()
    ]
    return int(any(len(result) > 1 for result in results))


if __name__ == "__main__":
    sys.exit(main())
