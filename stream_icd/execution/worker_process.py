"""One process that does jobs for this one, watched from here while it is at one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from stream_icd.errors import StreamIcdError
from stream_icd.execution.budget import Allowance
from stream_icd.execution.usage import Meter
from stream_icd.log import configure_logging

LOOK_EVERY_S = 0.05
"""How often what the process uses is compared with its job's allowance."""

# What a terminal or a supervisor sends to all of us.
_FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM)

# Not by fork: threads of ours may hold locks, and numba's do not survive it.
_SPAWN = multiprocessing.get_context("spawn")


class WorkerProcess:
    """A process that does one job at a time, and our end of the line to it.

    It never outlives this process, and ignores the signals that a terminal or a supervisor sends.

    Args:
        opening: makes, in the process, the function that does a job; can be pickled.
    """

    def __init__(self, opening: Callable[[], Callable[[Any], Any]]) -> None:
        self._line, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, opening), daemon=True)
        with _deaf_from_the_start():
            self._process.start()
        theirs.close()  # so that the line breaks when the process ends
        self._opened: tuple[bool, Any] | None = None
        self._meter = Meter(self._process.pid or 0)

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def resident_bytes(self) -> int:
        """Its resident memory."""
        return self._meter.resident_bytes

    def opened(self) -> tuple[bool, Any]:
        """Whether it opened, and what that raised; waits until it is known.

        Raises:
            EOFError, OSError: the process is no more.
        """
        if self._opened is None:
            self._opened = self._line.recv()
        return self._opened

    def do(self, job: Any, allowance: Allowance) -> tuple[bool, Any]:
        """Whether it succeeded, and what it gave or raised.

        Raises:
            OverBudget: it took more than its allowance, and is at it still.
            EOFError, OSError: the process is no more.
        """
        opened = self.opened()
        if not opened[0]:
            return opened
        self._meter.reset()
        self._line.send(job)
        while not self._line.poll(LOOK_EVERY_S):
            allowance.check(self._meter.read())
        answer: tuple[bool, Any] = self._line.recv()
        return answer

    def end(self) -> int | None:
        """Kill it, if it is still there; its exit status."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode


@contextmanager
def _deaf_from_the_start() -> Iterator[None]:
    """What is started meanwhile holds these signals back until it has said that it ignores them.

    This process gets its own when the block ends.
    """
    resource_tracker.ensure_running()  # or `start` would do it, which lets them through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_THE_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(line: Connection, opening: Callable[[], Callable[[Any], Any]]) -> None:
    """What a process does: jobs, one after the other."""
    _live_no_longer_than_parent()
    configure_logging()
    opened, work = _attempted(opening)
    with suppress(EOFError, BrokenPipeError):  # nobody is there any more
        line.send((opened, None if opened else work))
        while opened:
            line.send(_attempted(work, line.recv()))


def _attempted(work: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    try:
        return True, work(*arguments)
    except Exception as error:
        if not isinstance(error, StreamIcdError):  # its trace does not travel by itself
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return False, error


def _live_no_longer_than_parent() -> None:
    """Leave signals that stop a program to the parent, and end when it does, also by `kill -9`."""
    for number in _FOR_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_THE_PARENT)
    parent = multiprocessing.parent_process()
    assert parent is not None, "only for a child process"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
