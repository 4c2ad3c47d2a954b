"""A worker process that runs jobs for this process, which monitors it during each job."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from stream_icd.errors import StreamIcdError
from stream_icd.execution.budget import Allowance, Meter
from stream_icd.execution.fork_server import CONTEXT, FOR_THE_PARENT, start
from stream_icd.execution.relay import Baton, Link
from stream_icd.log import configure_logging

DONE, TAKE, TOOK = range(3)
"""What a process says of its job: here are the result and what to hand on; give me what the job
before handed on; I have taken what was sent with the job."""

LOOK_EVERY_S = 0.05
"""Interval between checks of the process's resource usage against its job's limits."""


class WorkerProcess:
    """A process that runs one job at a time, and this process's end of the connection.

    It never outlives this process, and ignores the signals that a terminal or a supervisor sends.

    Args:
        opening: creates, in the process, the function that runs a job; can be pickled. A job of a
            chain is run with its `Relay` as a second argument.
    """

    def __init__(self, opening: Callable[[], Callable[[Any], Any]]) -> None:
        self._line, theirs = CONTEXT.Pipe()
        arguments = theirs, opening, dict(os.environ)
        self._process = CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        start(self._process)
        theirs.close()  # so that the connection closes when the process ends
        self._opened: tuple[bool, Any] | None = None
        self._meter = Meter(self.pid)

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def resident_bytes(self) -> int:
        return self._meter.resident_bytes

    def opened(self) -> tuple[bool, Any]:
        """Wait until the process is open; return whether that succeeded, and what it raised.

        Raises:
            EOFError, OSError: the process has ended.
        """
        if self._opened is None:
            self._opened = self._line.recv()
        return self._opened

    def do(self, job: Any, allowance: Allowance, link: Link | None = None) -> tuple[bool, Any]:
        """Run a job; return whether it succeeded, and its result or error.

        Limits grow with what it takes from the job before it. Time in which it waits for that does
        not count. What it hands on is handed on if it succeeds.

        Raises:
            OverBudget: the job exceeded its limits, and is still running.
            EOFError, OSError: the process has ended.
        """
        opened = self.opened()
        if not opened[0]:
            return opened
        limits = allowance
        self._meter.reset()
        chained = None
        if link is not None:
            chained = link.most_bytes, link.is_ready, link.offered if link.is_ready else None
        self._line.send((job, chained))
        while True:
            while not self._line.poll(LOOK_EVERY_S):
                limits.check(self._meter.read())
            said, what = self._line.recv()
            if said == DONE:
                answer: tuple[bool, Any] = what[0]
                if link is not None and what[1] is not None and answer[0]:
                    link.pass_on(what[1])
                return answer
            assert link is not None, "only a job of a chain takes something"
            since = time.monotonic()
            taken = link.take()
            limits = allowance.with_state(len(taken or b""))
            if said == TAKE:
                self._line.send(taken)
            self._meter.skip_clock(time.monotonic() - since)

    def end(self) -> int | None:
        """Kill the process if it is still running; return its exit status."""
        self._meter.kill()
        self._process.join()
        return self._process.exitcode


@dataclass(slots=True)
class _PipeRelay:
    """The relay of a job in a worker process; `before` came with the job if it `is_ready`."""

    line: Connection
    most_bytes: float
    is_ready: bool
    before: Baton
    after: Baton = None

    def take(self) -> Baton:
        self.line.send((TOOK if self.is_ready else TAKE, None))
        if not self.is_ready:
            self.before = self.line.recv()
        return self.before

    def pass_on(self, baton: bytes) -> None:
        self.after = baton


def _serve(
    line: Connection, opening: Callable[[], Callable[[Any], Any]], environment: Mapping[str, str]
) -> None:
    """Run jobs, one after the other; the main function of the process.

    Args:
        environment: that of the parent now; the server's is from when it was started.
    """
    os.environ.clear()
    os.environ.update(environment)
    _live_no_longer_than_parent()
    configure_logging()
    opened, work = _attempted(opening)
    with suppress(EOFError, BrokenPipeError):  # the parent has ended
        line.send((opened, None if opened else work))
        while opened:
            job, chained = line.recv()
            if chained is None:
                line.send((DONE, (_attempted(work, job), None)))
            else:
                relay = _PipeRelay(line, *chained)
                line.send((DONE, (_attempted(work, job, relay), relay.after)))


def _attempted(work: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    try:
        return True, work(*arguments)
    except Exception as error:
        if not isinstance(error, StreamIcdError):  # pickling drops its traceback
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return False, error


def _live_no_longer_than_parent() -> None:
    """Ignore the signals that the parent handles, and end with the parent, even on `kill -9`."""
    for number in FOR_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_THE_PARENT)
    parent = multiprocessing.parent_process()
    assert parent is not None, "only for a child process"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
