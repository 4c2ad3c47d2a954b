"""The server that worker processes are forked from: it has imported what they need.

It is a process of Python's `multiprocessing`, which only imports, and has no threads that could
hold a lock while it forks. A worker process begins with a copy of what takes a second to import,
and shares its memory. The server ends with this process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerProcess
from typing import Any

# A terminal or a supervisor sends these to the whole process group.
FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM)

# Not fork: threads of this process may hold locks.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "stream_icd.execution.engines",
        "stream_icd.detection.record",
        "stream_icd.detection.snapshot",
        "pyarrow.compute",
    ]
)


ATTEMPTS, PAUSE_S = 3, 0.1
"""How often a process is started, if the server is killed meanwhile."""


def start_fork_server() -> None:
    """Start the server, unless it runs: it imports while this process does other things."""
    with _deaf_from_the_start():
        forkserver.ensure_running()


def _end_fork_server() -> None:
    """End the server and wait for it: nothing is left, and its processor time counts for us."""
    server: Any = forkserver._forkserver  # Python ends it only after this process
    if server._forkserver_pid is not None:
        with suppress(ProcessLookupError):
            os.kill(server._forkserver_pid, signal.SIGKILL)  # it may be importing
        server._stop()


util.Finalize(None, _end_fork_server, exitpriority=-1)  # after processes that still run


def start(process: ForkServerProcess) -> None:
    """Start a process of `CONTEXT`, in which `FOR_THE_PARENT` are blocked.

    Raises:
        EOFError, OSError: the server cannot be started, or is killed again and again.
    """
    with _deaf_from_the_start():
        for attempt in range(1, ATTEMPTS + 1):
            try:
                process.start()
                break
            except (EOFError, ConnectionError):  # the server was killed
                if attempt == ATTEMPTS:
                    raise
                time.sleep(PAUSE_S)


@contextmanager
def _deaf_from_the_start() -> Iterator[None]:
    """Block the parent's signals in processes started in the block, until they ignore them.

    The server blocks them for ever. This process receives its own when the block ends.
    """
    resource_tracker.ensure_running()  # else it is started later, which unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
