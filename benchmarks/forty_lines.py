"""The detector beside what a user would write instead: throughput, latency, and what is lost.

    python -m benchmarks.forty_lines --data as733.parquet --quix-python /tmp/quix/bin/python

Daily AS topologies (SNAP's AS-733, in any form that `stream-icd produce as` reads) wait in Apache
Kafka. Each program, in turns and with a broker of its own, works them off; then more come at a
fixed rate. The programs are `stream-icd consume detect`, as it is without options, and with one
part after the other switched off, and those in benchmarks/shared/forty_lines, which use igraph's
Leiden. Quix Streams needs an older confluent-kafka than our constraints allow, so it has an
environment of its own, in which `pip install quixstreams igraph pyarrow numpy` has been run;
without `--quix-python` it is left out.

Writes docs/measured/forty_lines.md, in ten minutes; the exit status is 1 when other programs used
the machine meanwhile: then the old page stays.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.shared.family import cpu_seconds, memory_mib
from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.pages.sections import MEASURED
from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import apache_kafka

FOLDER = Path(__file__).parent / "shared" / "forty_lines"
TARGET = "forty.communities"
PATIENCE_S = 300.0
Child = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Program:
    """A program that reads snapshots and publishes communities."""

    name: str
    target: str
    command: tuple[str, ...]
    source: Path | None = None

    def started(self, servers: str) -> tuple[str, ...]:
        """Return the command for this broker."""
        return tuple(part.replace("SERVERS", servers) for part in self.command)

    @property
    def n_lines(self) -> str:
        """The number of its lines that are not blank."""
        if self.source is None:
            return "-"
        text = self.source.read_text()
        if "import labels_of" in text:  # which the other program has
            shared = (FOLDER / "with_confluent.py").read_text()
            text += shared[: shared.index("def main")]
        lines = text.splitlines()
        return str(sum(1 for line in lines if line.strip() and not line.startswith('"""')))


@dataclass(frozen=True)
class Run:
    """Snapshots a second and CPU ms a snapshot with a backlog; latencies in ms; memory in MiB."""

    rate: float
    cpu_ms: float
    latencies: list[float]
    resident: float


CONSUME = ("consume", "detect", "-b", "SERVERS")
DETECT = (sys.executable, "-m", "stream_icd.commands.cli", *CONSUME)
WITHOUT_EVIDENCE = (sys.executable, "-m", f"{__package__}.shared.forty_lines.without_evidence")
WITHOUT_MEMORY, AT_LEAST_ONCE = ("--memory", "off"), ("--delivery", "at-least-once")
REDUCED = {
    "memory": (*DETECT, *WITHOUT_MEMORY),
    "evidence and measures": (*WITHOUT_EVIDENCE, *CONSUME),
    "exactly-once": (*DETECT, *AT_LEAST_ONCE),
    "all of these": (*WITHOUT_EVIDENCE, *CONSUME, *WITHOUT_MEMORY, *AT_LEAST_ONCE),
}
"""What is switched off, and the command."""


def programs(quix_python: str | None) -> list[Program]:
    """Return what is compared."""
    arguments = ("SERVERS", "forty-lines", SNAPSHOTS, TARGET)
    found = [Program("`stream-icd consume detect`", COMMUNITIES, DETECT)]
    found += [Program(f"without {part}", COMMUNITIES, one) for part, one in REDUCED.items()]
    for name, file, python in (
        ("confluent-kafka and igraph", "with_confluent.py", sys.executable),
        ("Quix Streams and igraph", "with_quix.py", quix_python),
    ):
        if python is not None:
            path = FOLDER / file
            found.append(Program(name, TARGET, (python, str(path), *arguments), path))
    return found


class Results:
    """The committed results of a topic, in the order in which they can be read."""

    def __init__(self, servers: str, topic: str) -> None:
        options = {"bootstrap.servers": servers, "group.id": "benchmark", "fetch.wait.max.ms": 5}
        self._consumer = Consumer({**options, "isolation.level": "read_committed"})
        partitions = self._consumer.list_topics(topic).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])

    def read(self, count: int, process: Child) -> Iterator[float]:
        """Yield when each of `count` results could be read."""
        until = time.monotonic() + PATIENCE_S
        while count:
            message = self._consumer.poll(0.5)
            if message is not None and not message.error():
                yield time.time()
                count -= 1
            elif process.poll() is not None or time.monotonic() > until:
                raise TimeoutError

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


def measured(
    program: Program, waiting: Sequence[Message], live: Sequence[Message], a_second: float
) -> Run:
    """Run a program on a broker of its own."""
    with apache_kafka() as broker, tempfile.TemporaryDirectory() as folder:
        servers = broker.bootstrap_servers
        settings = KafkaSettings(bootstrap_servers=servers)
        create_topics(settings)
        create_topics(settings, [TopicSpec(TARGET)])
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        for message in waiting:
            producer.produce(SNAPSHOTS, message.value, message.key, headers=list(message.headers))
        producer.flush()
        log = Path(folder) / "log"
        child = start_child(program.started(servers), log)
        results = Results(servers, program.target)
        try:
            run = _measured(child, results, producer, waiting, live, a_second)
            producer.flush()
            return run
        except TimeoutError:
            raise SystemExit(f"{program.name} did not finish: {tail(log)}") from None
        finally:
            results.close()
            stop_children([child], 20)


def _measured(
    child: Child,
    results: Results,
    producer: Producer,
    waiting: Sequence[Message],
    live: Sequence[Message],
    a_second: float,
) -> Run:
    n_warm = len(waiting) // 4
    seen = results.read(len(waiting), child)
    *_, began = itertools.islice(seen, n_warm)
    cpu_began = cpu_seconds(child.pid)
    *_, ended = seen
    cpu_ended, resident = cpu_seconds(child.pid), memory_mib(child.pid)
    n_timed = len(waiting) - n_warm
    sent: list[float] = []

    def send() -> None:
        start = time.time()
        for number, message in enumerate(live):
            time.sleep(max(0.0, start + number / a_second - time.time()))
            sent.append(time.time())
            producer.produce(SNAPSHOTS, message.value, message.key, headers=list(message.headers))
            producer.poll(0)

    sender = threading.Thread(target=send)
    sender.start()
    arrivals = list(results.read(len(live), child))
    sender.join()
    latencies = [1000 * (seen - since) for since, seen in zip(sent, arrivals, strict=True)]
    return Run(
        n_timed / (ended - began), 1000 * (cpu_ended - cpu_began) / n_timed, latencies, resident
    )


def row(program: Program, runs: Sequence[Run]) -> str:
    """Return a line of the table."""
    latencies = np.concatenate([run.latencies for run in runs])
    timed = median(run.rate for run in runs), *np.percentile(latencies, [50, 99])
    rate, p50, p99 = (f"{one:.0f}" for one in timed)
    cpu, resident = (median(getattr(one, name) for one in runs) for name in ("cpu_ms", "resident"))
    return (
        f"{program.name} | {program.n_lines} | {rate} | {cpu:.1f} | {p50} | {p99} | {resident:.0f}"
    )


LOST = (
    ("", "`consume detect`", "confluent-kafka", "Quix Streams"),
    ("---", "---", "---", "---"),
    (
        "after a crash",
        "each result once: a transaction holds results, memory and offsets",
        "up to 8 results twice",
        'those of 5 s twice; once with `processing_guarantee="exactly-once"`',
    ),
    (
        "order within a graph",
        "kept, also with `--processes` and after rebalances",
        "kept by one process",
        "kept by one process",
    ),
    (
        "memory of earlier windows",
        "communities have ids that last, and are found with what was known",
        "none: the labels of two windows have nothing in common",
        "none, unless you write it, with its state store",
    ),
    ("evidence that there are communities", "bits saved; strong, weak or none", "none", "none"),
    ("measures, K, model, times", "headers of each result", "none", "none"),
    (
        "a message that cannot be read",
        "a dead letter with the reason; the stream goes on",
        "ends the program, after each restart again",
        "the same; `on_processing_error` may skip it",
    ),
    (
        "one that takes too much time or memory",
        "is ended by its budget, and becomes a dead letter",
        "takes the program with it",
        "takes the program with it",
    ),
    ("a result above the broker's limit", "goes to a claim store", "ends it", "ends it"),
    (
        "nodes without edges; weights; repeated pairs",
        "all count",
        "left out; ignored; counted twice",
        "the same",
    ),
)


def spent_on(runs: dict[str, list[Run]]) -> str:
    """Say what the processor time of `consume detect` is for, beside that of the others."""
    cpu = {name: median(run.cpu_ms for run in some) for name, some in runs.items()}
    ours, *reduced = ("`stream-icd consume detect`", *(f"without {part}" for part in REDUCED))
    saved = "; ".join(f"{name}, {cpu[name] - cpu[ours]:+.1f} ms" for name in reduced)
    others = "; ".join(
        f"{cpu[ours] / took:.2f} times as much as {name}, {cpu[reduced[-1]] / took:.2f} times "
        "without all of these"
        for name, took in cpu.items()
        if name not in (ours, *reduced)
    )
    text = (
        f"A snapshot takes `consume detect` {cpu[ours]:.1f} ms of processor time; {saved}. That is "
        f"{others}. What stays is detection by belief propagation, which is compared with other "
        "models of the graph, the check of each message, a worker process with a budget, and a "
        "Kafka client in Python. On a busy machine, two runs of one program differ by up to a "
        "fifth: the broker and others fill the caches, and whoever waits longer looks more often."
    )
    return textwrap.fill(text, 105)


def page(
    found: dict[str, str],
    spent: str,
    count: int,
    live: int,
    a_second: float,
    rounds: int,
    stamp: str,
) -> str:
    """docs/measured/forty_lines.md."""
    rows = "\n".join(found.values())
    lost = "\n".join(f"| {' | '.join(cells)} |" for cells in LOST)
    return f"""# Forty lines instead

For those who think of writing the detector themselves: how fast the shortest honest program is,
and what it does without. The programs are in `benchmarks/shared/forty_lines`.

Written by `python -m benchmarks.forty_lines --data as733.parquet --quix-python PYTHON`: {count}
days of AS-733 wait in Apache Kafka, then {live} more come at {a_second:g} a second.
Medians of rounds ({rounds}); each run has a broker of its own, on the same machine. {stamp}

program | lines | snapshots/s, backlog | CPU ms a snapshot | ms to the result, median | 99 % | MiB
--- | --- | --- | --- | --- | --- | ---
{rows}

Throughput counts from a quarter of the backlog on. CPU and memory are those of the program and all
processes that it starts, without the broker. `consume detect` has one worker process, the model
`default`, memory, evidence and measures, and is exactly-once; the others run igraph's Leiden with
two iterations (its default), at least once.

## What the processor time is for

{spent}

## What they do without

{lost}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--quix-python", help="a Python with quixstreams, igraph and pyarrow")
    parser.add_argument("--days", type=int, default=200)
    parser.add_argument("--live", type=int, default=100)
    parser.add_argument("--rate", type=float, default=10, help="snapshots a second, after that")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    machine = Machine(BY_CLOCK)
    source = (snapshot for snapshot, _ in read_as_topology(options.data).snapshots)
    messages = [
        encode_snapshot(snapshot)
        for snapshot in itertools.islice(source, options.days + options.live)
    ]
    waiting, live = messages[: options.days], messages[options.days :]
    compared = programs(options.quix_python)
    runs: dict[str, list[Run]] = {program.name: [] for program in compared}
    for _, program in itertools.product(range(options.rounds), compared):
        runs[program.name].append(measured(program, waiting, live, options.rate))
        print(row(program, runs[program.name][-1:]), flush=True)
    found = {program.name: row(program, runs[program.name]) for program in compared}
    live_and_rate, stamp = (len(live), options.rate), machine.stamp()
    text = page(found, spent_on(runs), len(waiting), *live_and_rate, options.rounds, stamp)
    (MEASURED / "forty_lines.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
