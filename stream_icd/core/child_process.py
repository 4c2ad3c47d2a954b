"""Child processes that never outlive their parent: each runs in its own session."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


def start_child(
    command: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command`; write its standard error (and output, unless `stdout` is given) to `log`.

    Ctrl-C does not reach the child. On Linux it dies with the thread that started it, even on
    `kill -9`.
    """
    with log.open("wb") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=errors if stdout is None else stdout,
            stderr=errors,
            env=env,
            start_new_session=True,
            preexec_fn=_dies_with(os.getpid()),
        )


def stop_children(processes: Sequence[subprocess.Popen[bytes]], timeout_s: float) -> list[int]:
    """Terminate all, kill those that still run after `timeout_s` seconds; return their statuses."""
    for process in processes:  # all before the first wait: they end side by side
        process.terminate()
    deadline = time.monotonic() + timeout_s
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    return [process.wait() for process in processes]


def tail(log: Path) -> str:
    """Return the end of a log, for the message of an error about a child process."""
    return log.read_bytes()[-2000:].decode(errors="replace").strip()


def _dies_with(parent: int) -> Callable[[], None] | None:
    """What the child runs before its command, so that it dies with its parent."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died in between
            os._exit(1)

    return tie
