"""Processes that do one job at a time, on this machine, and are replaced when they are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import structlog

from stream_icd.errors import Overloaded, StreamIcdError
from stream_icd.log import configure_logging

Job = TypeVar("Job")
Result = TypeVar("Result")

ATTEMPTS = 3
"""How many processes a job may end before it is given up."""

# What a terminal or a supervisor sends to all of us.
_FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM)

# Not by fork: threads of ours may hold locks, and numba's do not survive it.
_SPAWN = multiprocessing.get_context("spawn")


class Processes(Generic[Job, Result]):
    """`count` processes that do jobs; a context manager, whose end is theirs.

    They never outlive this process, even when it is killed. Ctrl-C and SIGTERM, which a terminal
    or a supervisor sends to all of us, are left to this one.

    When one of them is killed, as the system does when memory runs out, another takes its place
    and its job; the other jobs notice nothing. So jobs must be such that may be done twice.

    Args:
        opening: makes, in each process, the function that does a job; can be pickled.
        name: what to call a job in an error.
    """

    def __init__(
        self,
        opening: Callable[[], Callable[[Job], Result]],
        count: int,
        name: Callable[[Job], str],
    ) -> None:
        self.count = count
        self._opening = opening
        self._name = name
        self._lock = threading.Lock()
        self._closed = False
        self._all: set[_Process] = set()
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count, "process")  # one waits for each process
        for _ in range(count):
            self._idle.put(self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closed = True
            for process in self._all:
                process.end()
        self._threads.shutdown(cancel_futures=True)

    @property
    def alive(self) -> int:
        """How many of them are there at this moment."""
        with self._lock:
            return sum(process.is_alive for process in self._all)

    def submit(self, job: Job) -> Future[Result]:
        """Have a job done when a process is free.

        The future raises what the job raised, and Overloaded where the job's process was ended
        from outside in each of 3 attempts.
        """
        return self._threads.submit(self._done, job)

    def _done(self, job: Job) -> Result:
        for attempt in range(1, ATTEMPTS + 1):
            process = self._idle.get()
            try:
                succeeded, result = process.do(job)
            except (EOFError, OSError):
                process = self._replaced(process, job, attempt)
                continue
            finally:
                self._idle.put(process)
            if not succeeded:
                raise result
            return result  # type: ignore[no-any-return]
        raise Overloaded(
            f"{self._name(job)}: {ATTEMPTS} worker processes were ended from outside while they "
            f"were at it, as the system does when memory runs out: give more memory, or fewer "
            f"than {self.count} processes; what was done stays done"
        )

    def _replaced(self, process: _Process, job: Job, attempt: int) -> _Process:
        status = process.end()
        with self._lock:
            self._all.discard(process)
            if self._closed:
                raise EOFError("the processes are closed")
        structlog.get_logger().warning(
            "a worker process was ended from outside; another takes its place",
            job=self._name(job),
            attempt=attempt,
            status=status,
        )
        return self._start()

    def _start(self) -> _Process:
        with self._lock:
            process = _Process(self._opening)
            self._all.add(process)
            return process


class _Process:
    """One process and our end of the line to it."""

    def __init__(self, opening: Callable[[], Callable[[Any], Any]]) -> None:
        self._line, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, opening), daemon=True)
        with _deaf_from_the_start():
            self._process.start()
        theirs.close()  # so that the line breaks when the process ends

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def do(self, job: Any) -> tuple[bool, Any]:
        """Whether it succeeded, and what it gave or raised.

        Raises:
            EOFError, OSError: the process is no more.
        """
        self._line.send(job)
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
    with suppress(EOFError):  # nobody is there any more
        while True:
            job = line.recv()
            line.send(_attempted(work, job) if opened else (False, work))


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
