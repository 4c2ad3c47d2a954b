"""Child processes that never outlive us: started in a session of their own, stopped in order."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
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
    """Start `command`, its standard error (and output, unless `stdout` is given) going to `log`.

    Ctrl-C does not reach it: whoever started it stops it. On Linux it also dies with the thread
    that started it, even on `kill -9`.
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


def stop_child(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Ask it to end, insist after `timeout_s` seconds; its exit status."""
    process.terminate()
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def tail(log: Path, length: int = 2000) -> str:
    """The end of a log, to say in an error what a child said last."""
    return log.read_bytes()[-length:].decode(errors="replace").strip()


def _dies_with(parent: int) -> Callable[[], None] | None:
    """What the child does before it becomes `command`, so that it never outlives us."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return tie
