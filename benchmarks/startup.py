"""How long commands take to start: the whole of --help, and the way to the first word to Kafka.

    python -m benchmarks.startup

A command that talks to Kafka is started against a socket of ours; its time runs from the
process's creation to its first connection. Commands take turns, so that a busy moment hits them
all alike. What else the machine does only ever adds time, so the best of the rounds is what a
command needs. Then a detector is started beside a broker that holds a snapshot, and a worker
process by itself. Writes docs/measured/startup.md; the exit status is 1 when something takes longer
than promised, or when other programs used the machine meanwhile: then the old page stays.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from benchmarks.shared.family import cpu_seconds
from benchmarks.shared.machine import BY_CLOCK, Machine
from stream_icd.core.child_process import start_child, stop_children
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import OPENERS, Broker
from tests.testbed.children import worker_processes
from tests.testbed.drifting import stream

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "startup.md"
MODEL = "default"
READY_S, FIRST_RESULT_S, NOBODY_S = 0.7, 3.0, 3.0
LIMIT_S = 0.5
PATIENCE_S = 60

FIRST_ANSWER = """
import numpy as np
from stream_icd.streaming.detection.detect import detect
from stream_icd.registry.find import open_model
from stream_icd.methods.synthetic.lfr import generate_lfr
graph = generate_lfr(np.random.default_rng(0))
detect(graph.adjacency(), open_model("as").model)
"""


@dataclass(frozen=True)
class Start:
    """A command, and the seconds within which its users were promised that it starts.

    With `program`, that is run by Python instead, and `arguments` only say what it does.
    """

    arguments: tuple[str, ...]
    promised: float | None = LIMIT_S
    program: str = ""

    @property
    def shown(self) -> str:
        return " ".join(self.arguments if self.program else ("stream-icd", *self.arguments))

    @property
    def command(self) -> list[str]:
        program = ("-c", self.program) if self.program else ("-m", "stream_icd.commands.cli")
        return [sys.executable, *program, *(() if self.program else self.arguments)]

    @property
    def connects(self) -> bool:
        return not self.program and "--help" not in self.arguments


STARTS = (
    Start(("--help",)),
    Start(("subscribe", "--help")),
    Start(("produce", "as", "--help")),
    Start(("subscribe",)),
    Start(("produce", "as", "as19990402.txt")),
    Start(("produce", "lfr")),
    Start(("consume", "detect"), promised=None),
    Start(("import, load a model, detect in 5,000 nodes",), promised=3.0, program=FIRST_ANSWER),
)


Times = tuple[float, float]
"""Seconds by the clock and of processor time."""


def seconds_to_start(start: Start, folder: Path) -> Times:
    """Seconds until the command has ended (help) or has connected to its bootstrap server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        environment = {**os.environ, "STREAM_ICD_BOOTSTRAP_SERVERS": address}
        began, ended_before = time.perf_counter(), ended_cpu()
        process = subprocess.Popen(
            start.command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if start.connects:
                _await_connection(server, process)
                cpu = cpu_seconds(process.pid)
            else:
                process.wait(PATIENCE_S)
                cpu = ended_cpu() - ended_before
            return time.perf_counter() - began, cpu
        finally:
            process.kill()
            process.communicate()  # also closes its pipe


def _await_connection(server: socket.socket, process: subprocess.Popen[str]) -> None:
    server.settimeout(1.0)
    for _ in range(PATIENCE_S):
        with contextlib.suppress(TimeoutError):
            server.accept()[0].close()
            return
        if process.poll() is not None:
            break
    process.kill()
    assert process.stderr is not None
    raise SystemExit(f"{process.args!r} did not connect: {process.stderr.read()[-800:]}")


def measure(rounds: int) -> dict[Start, list[Times]]:
    """The times of each command in each round, after a round that fills the caches."""
    times: dict[Start, list[Times]] = {start: [] for start in STARTS}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "as19990402.txt").write_text("701\t1239\n1239\t7018\n")
        for number in range(rounds + 1):
            for start in STARTS:
                took = seconds_to_start(start, Path(folder))
                if number:
                    times[start].append(took)
    return times


@dataclass(frozen=True)
class Begun:
    """Something that a detector begins with, and its times in each round."""

    name: str
    promised: float
    times: list[Times]


def timed(name: str, promised: float, rounds: int, start: Callable[[], Times]) -> Begun:
    """Start something some times, after once that fills the caches."""
    times = [start() for _ in range(rounds + 1)]
    return Begun(name, promised, times[1:])


def ended_cpu() -> float:
    """Processor time of the processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def worker_process() -> Times:
    """A worker process with the model, warmed up; the server that forks it runs already."""
    settings = DetectSettings(memory="auto", group="startup", threads=1)
    work = RecordDetection(open_model(MODEL), settings)
    began = time.perf_counter()
    with Processes(work, MODEL, 1) as processes:
        processes.wait_until_warm(Event())
        (worker,) = worker_processes(os.getpid())
        return time.perf_counter() - began, cpu_seconds(worker)


def first_result(broker: Broker) -> Times:
    """A detector, until it has published what it found in a snapshot that waits for it."""
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_reader(settings, COMMUNITIES, "latest") as results,
    ):
        group = f"startup-{time.time_ns()}"
        arguments = ("-m", "stream_icd.commands.cli", "consume", "detect", "--group", group, "-b")
        command = (sys.executable, *arguments, broker.bootstrap_servers)
        began = time.perf_counter()
        child = start_child(command, Path(folder) / "log")
        try:
            next(results)
            return time.perf_counter() - began, cpu_seconds(child.pid)
        finally:
            stop_children([child], 20)


def nobody_there() -> Times:
    """A detector where no broker listens, until it has said so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    command = [sys.executable, "-m", "stream_icd.commands.cli", "consume", "detect", "-b", address]
    began, before = time.perf_counter(), ended_cpu()
    subprocess.run(command, check=False, capture_output=True)
    return time.perf_counter() - began, ended_cpu() - before


def detectors(rounds: int) -> list[Begun]:
    """All that a detector begins with."""
    begun = [
        timed("a worker process, ready for its first snapshot", READY_S, rounds, worker_process),
        timed("`consume detect`, no broker: says so", NOBODY_S, rounds, nobody_there),
    ]
    for name, shown in (("kafka", "Apache Kafka"), ("embedded", "the embedded broker")):
        with OPENERS[name]() as broker:
            settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
            create_topics(settings)
            with Publisher(settings) as publisher:
                publisher.send(outgoing(SNAPSHOTS, encode_snapshot(*stream("startup", 1))))
            what = f"`consume detect`, first result, {shown}"
            begun.append(timed(what, FIRST_RESULT_S, rounds, partial(first_result, broker)))
    return begun


def cells(times: list[Times]) -> str:
    """The best and the median by the clock, and the median of processor time."""
    seconds, cpu = zip(*times, strict=True)
    shown = min(seconds), statistics.median(seconds), statistics.median(cpu)
    return " | ".join(f"{one:.2f}" for one in shown)


def page(times: dict[Start, list[Times]], begun: list[Begun], rounds: int, stamp: str) -> str:
    rows = "\n".join(
        f"`{start.shown}` | {'first connection' if start.connects else 'end of the run'} | "
        f"{cells(taken)} | {start.promised or '-'}"
        for start, taken in times.items()
    )
    of_detectors = "\n".join(f"{one.name} | {cells(one.times)} | {one.promised}" for one in begun)
    return f"""# Start-up times

How long commands take to start. Written by `python -m benchmarks.startup`: {rounds} rounds that
alternate between the commands, with a warm file cache. {stamp}

command | measured until | seconds, best | seconds, median | CPU seconds | seconds, limit
--- | --- | --- | --- | --- | ---
{rows}

Limits are by the clock, on an idle machine; processor time, too, grows where other programs run.
Commands with a limit of 0.5 s do not load torch, numba, scikit-learn or matplotlib
(tests/packaging/test_startup.py). A detector warms up before it joins its group; on the embedded
broker, where joining takes a second, meanwhile.

## Detectors

With a warm cache of compiled code. Processor time is that of all processes together. A detector's
main process imports while the server imports from which its worker processes are forked; a worker
process by itself is one more of a server that runs, as when another is replaced. The embedded
broker lets a new member wait for half a session, a second here. Apache Kafka lets the first member
of a new group wait for `group.initial.rebalance.delay.ms` (3 s unless set; 0 here).

what | seconds, best | seconds, median | CPU seconds | seconds, limit
--- | --- | --- | --- | ---
{of_detectors}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as where it is installed
    machine = Machine(BY_CLOCK)
    times, begun = measure(rounds), detectors(max(1, rounds // 3))
    PAGE.write_text(page(times, begun, rounds, machine.stamp()), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    promised = [(start.promised, taken) for start, taken in times.items()]
    promised += [(one.promised, one.times) for one in begun]
    return int(any(limit and min(taken)[0] > limit for limit, taken in promised))


if __name__ == "__main__":
    raise SystemExit(main())
