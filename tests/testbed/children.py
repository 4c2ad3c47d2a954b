"""What a process has started, and whether it is still there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest


def children(pid: int) -> list[int]:
    """Processes that a process has started, by whichever of its threads."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        pytest.skip("needs /proc to see a process's children: run it on Linux")
    pids: list[int] = []
    for task in tasks.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            pids += map(int, (task / "children").read_text().split())
    return pids


def worker_processes(pid: int) -> list[int]:
    """The worker processes of a process: those that its fork server has started."""
    return [worker for server in fork_servers(pid) for worker in children(server)]


def fork_servers(pid: int) -> list[int]:
    """The server that forks a process's worker processes, if it runs.

    That of a program of `testbed.starting` is a copy of the program.
    """
    lines = {child: _command_line(child) for child in children(pid)}
    of_program = _command_line(pid)
    return [child for child, line in lines.items() if b"forkserver" in line or line == of_program]


def end_fork_servers() -> None:
    """End those of this process: the next one gets the standard error that there is then."""
    for server in fork_servers(os.getpid()):
        os.kill(server, signal.SIGKILL)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return b""


def alive(pid: int) -> bool:
    """Whether it runs: a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status != "Z"


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_until_killed(work: Callable[[], object]) -> None:
    """Run what kills its process in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
