"""How long commands take to start: the whole of --help, and the way to the first word to Kafka.

    python benchmarks/startup.py

A command that talks to Kafka is started against a socket of ours; its time runs from the
process's creation to its first connection. Commands take turns, so that a busy moment hits them
all alike. What else the machine does only ever adds time, so the best of the rounds is what a
command needs. Writes docs/measured/startup.md; the exit status is 1 when a command that should
start at once (0.5 s) does not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "startup.md"
LIMIT_S = 0.5
PATIENCE_S = 60

FIRST_ANSWER = """
import numpy as np
from stream_icd.detection.detect import detect
from stream_icd.registry.shipped import open_model
from stream_icd.synthetic.lfr import generate_lfr
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
        program = ("-c", self.program) if self.program else ("-m", "stream_icd.cli")
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


def seconds_to_start(start: Start, folder: Path) -> float:
    """Seconds until the command has ended (help) or has connected to its bootstrap server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        environment = {**os.environ, "STREAM_ICD_BOOTSTRAP_SERVERS": address}
        began = time.perf_counter()
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
            else:
                process.wait(PATIENCE_S)
            return time.perf_counter() - began
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
    raise SystemExit(f"{process.args} did not connect: {process.stderr.read()[-800:]}")


def measure(rounds: int) -> dict[Start, list[float]]:
    """Seconds of each command in each round, after a round that fills the caches."""
    times: dict[Start, list[float]] = {start: [] for start in STARTS}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "as19990402.txt").write_text("701\t1239\n1239\t7018\n")
        for number in range(rounds + 1):
            for start in STARTS:
                seconds = seconds_to_start(start, Path(folder))
                if number:
                    times[start].append(seconds)
    return times


def page(times: dict[Start, list[float]], rounds: int) -> str:
    rows = "\n".join(
        f"`{start.shown}` | {'first connection' if start.connects else 'end of the run'} | "
        f"{min(taken):.2f} | {statistics.median(taken):.2f} | {start.promised or '-'}"
        for start, taken in times.items()
    )
    return f"""# Start-up times

How long commands take to start. Written by `make bench` (benchmarks/startup.py): {rounds} rounds
that alternate between the commands, with a warm file cache; {os.cpu_count()} CPU cores, Python
{platform.python_version()}. The load average is {os.getloadavg()[0]:.1f} (about 1 on an idle
machine; if it is higher, the times are too long).

command | measured until | seconds, best | seconds, median | seconds, limit
--- | --- | --- | --- | ---
{rows}

Commands with a limit of 0.5 s do not load torch, numba, scikit-learn or matplotlib
(tests/packaging/test_startup.py). The detector opens its model and warms up before it connects.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    times = measure(rounds)
    for start, taken in times.items():
        print(f"best {min(taken):.3f} s, median {statistics.median(taken):.3f} s  {start.shown}")
    PAGE.write_text(page(times, rounds), encoding="utf-8")
    return int(
        any(start.promised and min(taken) > start.promised for start, taken in times.items())
    )


if __name__ == "__main__":
    raise SystemExit(main())
