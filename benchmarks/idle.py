"""Processor time of workers and of the live page that wait for records, on two brokers.

    python -m benchmarks.idle
    python -m benchmarks.idle --seconds 300

Writes a table of docs/measured/running.md. It counts the processor time of each worker with its
processes, so other programs on the machine change little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.shared.pages.sections import write_section
from stream_icd.core.child_process import start_child
from stream_icd.kafka.topics import create_topics
from tests.testbed import brokers

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
NAMES = {"kafka": "Apache Kafka", "embedded": "embedded broker"}
WORKERS = {
    "consume detect": ("consume", "detect"),
    "consume track": ("consume", "track"),
    "consume archive": ("consume", "archive", "{folder}/history"),
    "view": ("view", "--port", "0"),
}


def processes(pid: int) -> list[int]:
    """A process and all that it has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(process for child in children for process in processes(child))]


def processor_s(pid: int) -> float:
    """Seconds of processor time of a process and all that it has started."""
    stats = [
        Path(f"/proc/{process}/stat").read_text().rpartition(")")[2] for process in processes(pid)
    ]
    return sum(int(stat.split()[n]) for stat in stats for n in (11, 12)) / TICKS_A_SECOND


def measure(name: str, folder: Path, settle_s: float, seconds: float) -> dict[str, float]:
    """Percent of a core that each worker takes."""
    with brokers.OPENERS[name]() as broker:
        create_topics(broker.settings())
        environment = os.environ | {"STREAM_ICD_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
        running: dict[str, subprocess.Popen[bytes]] = {}
        for worker, arguments in WORKERS.items():
            given = [argument.format(folder=folder) for argument in arguments]
            command = (sys.executable, "-m", "stream_icd.commands.cli", *given)
            running[worker] = start_child(command, folder / f"{worker}.log", env=environment)
        try:
            time.sleep(settle_s)
            before = {worker: processor_s(one.pid) for worker, one in running.items()}
            began = time.monotonic()
            time.sleep(seconds)
            past_s = time.monotonic() - began
            return {
                worker: 100 * (processor_s(one.pid) - before[worker]) / past_s
                for worker, one in running.items()
            }
        finally:
            for one in running.values():
                one.terminate()
            for one in running.values():
                one.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    rows = []
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(name, Path(folder), options.settle, options.seconds)
        rows.append(" | ".join([NAMES[name], *(f"{found[worker]:.2f} %" for worker in WORKERS)]))
        print(rows[-1], flush=True)
    heading = " | ".join(["broker", *(f"`{worker}`" for worker in WORKERS)])
    table = [heading, " | ".join(["---"] * (1 + len(WORKERS))), *rows, ""]
    write_section("measured/running.md", "idle.py", "\n".join(table))


if __name__ == "__main__":
    main()
