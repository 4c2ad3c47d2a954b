"""A worker process that runs jobs for this process, which measures it during each job.

Worker processes are forked from a server, a process of Python's `multiprocessing` that has imported
what they need, and has no threads that could hold a lock while it forks. So they begin with a copy
of what takes a second to import, and share its memory. The server ends with this process.

This file imports little, so that a program can start the server before it imports the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import TYPE_CHECKING, Any

import psutil

from stream_icd.core.errors import StreamIcdError, WorkersLost
from stream_icd.core.store.whole_file import check_temporary_folder

if TYPE_CHECKING:
    from stream_icd.streaming.execution.budget import Allowance
    from stream_icd.streaming.execution.work import Waiting

_LOOK_EVERY_S = 0.05
"""Interval between checks of the process's resource usage against its job's limits."""

ATTEMPTS, PAUSE_S = 3, 0.1
"""How often a process is started, if the server is killed meanwhile."""

# A terminal or a supervisor sends these to the whole process group.
_FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM)

# Not fork: threads of this process may hold locks.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "stream_icd.streaming.execution.processes",
        "stream_icd.streaming.detection.record",
        "stream_icd.streaming.detection.snapshot",
        "pyarrow.compute",
    ]
)


def start_fork_server() -> None:
    """Start the server, unless it runs: it imports while this process does other things."""
    check_temporary_folder()  # its socket is there
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


@contextmanager
def _deaf_from_the_start() -> Iterator[None]:
    """Block the parent's signals in processes started in the block, until they ignore them.

    The server blocks them for ever. This process receives its own when the block ends.
    """
    resource_tracker.ensure_running()  # else it is started later, which unblocks the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_THE_PARENT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerProcess:
    """A process that runs one job at a time, and this process's end of the connection.

    It never outlives this process, and ignores the signals that a terminal or a supervisor sends.

    Args:
        opening: creates, in the process, the function that runs a job; can be pickled. A job of a
            chain is run with its `Relay` as a second argument.

    Attributes:
        at_work: the job in progress, and its limits; None: there is none.
        meter: measures it.

    Raises:
        WorkersLost: the server cannot be started, or is killed again and again.
    """

    def __init__(self, opening: Callable[[], Callable[..., Any]]) -> None:
        self._line, theirs = _CONTEXT.Pipe()
        arguments = theirs, opening, dict(os.environ)
        self._process = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        _start(self._process)
        theirs.close()  # so that the connection closes when the process ends
        self._opened: tuple[bool, Any] | None = None
        self.meter = _Meter(self.pid)
        # It ignores SIGTERM, with which Python ends it: the program would wait for it for ever.
        util.Finalize(self, self.meter.kill, exitpriority=0)
        self.at_work: tuple[Any, Allowance] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def is_alive(self) -> bool:
        return self.meter.is_running  # Python says no once the server that forked it has ended

    def opened(self) -> tuple[bool, Any]:
        """Wait until the process is open; return whether that succeeded, and what it raised.

        Raises `EOFError` or `OSError` if it has ended.
        """
        if self._opened is None:
            self._opened = self._line.recv()
        return self._opened

    def do(self, job: Any, allowance: Allowance) -> tuple[bool, Any]:
        """`run` for one job that belongs to no chain."""
        from stream_icd.streaming.execution.work import Waiting

        return next(self.run([Waiting(job, allowance)]))

    def run(self, jobs: Sequence[Waiting[Any, Any]]) -> Iterator[tuple[bool, Any]]:
        """Run jobs one after the other, until one fails.

        Yields whether each succeeded, and its result or error. Limits grow with the memory that a
        job begins with. Its relay has the memory that it leaves as soon as it succeeds.

        Raises:
            OverBudget: the job exceeded its limits, and is still running.
            EOFError, OSError: the process has ended.
        """
        succeeded, error = self.opened()
        if not succeeded:
            yield succeeded, error
            return
        relays = {waiting.chain: waiting.relay for waiting in jobs if waiting.relay is not None}
        self._line.send(([(waiting.job, waiting.chain) for waiting in jobs], relays))
        for waiting in jobs:
            relay = waiting.relay
            n_bytes = 0 if relay is None else len(relay.memory or b"")
            self.meter.reset()  # before the limits can be seen: they are those of this job
            self.at_work = waiting.job, waiting.allowance.with_state(n_bytes)
            try:
                while not self._line.poll(_LOOK_EVERY_S):
                    self.meter.check(self.at_work[1])
            finally:
                self.at_work = None
            answer, memory = self._line.recv()
            # Before the answer is yielded: whoever gets it may begin the next job of the chain.
            if relay is not None and answer[0] and memory is not None:
                relay.memory = memory
            yield answer
            if not answer[0]:
                return

    def end(self) -> int | None:
        """Kill the process if it is still running; return its exit status."""
        self.meter.kill()
        self._process.join()
        return self._process.exitcode


def _start(process: ForkServerProcess) -> None:
    with _deaf_from_the_start():
        for attempt in range(1, ATTEMPTS + 1):
            try:
                process.start()
                break
            except (EOFError, OSError) as error:  # the server was killed, or cannot fork
                if attempt == ATTEMPTS:
                    check_temporary_folder()  # the server's socket is there
                    raise WorkersLost(
                        f"no worker process can be started ({type(error).__name__}: {error}): give "
                        "more memory, or allow more processes"
                    ) from error
                time.sleep(PAUSE_S)


def _serve(
    line: Connection, opening: Callable[[], Callable[..., Any]], environment: Mapping[str, str]
) -> None:
    """Run jobs, one after the other; the main function of the process.

    `environment` is that of the parent now; the server's is from when it was started.
    """
    from stream_icd.core.log import configure_logging

    os.environ.clear()
    os.environ.update(environment)
    _live_no_longer_than_parent()  # first: the parent may end while the model is opened
    configure_logging()
    opened, work = _attempted(opening)
    with suppress(EOFError, ConnectionError):  # the parent has ended
        line.send((opened, None if opened else work))
        while opened:
            jobs, relays = line.recv()
            for job, chain in jobs:
                relay = None if chain is None else relays[chain]
                before = None if relay is None else relay.memory
                answer = _attempted(work, job) if relay is None else _attempted(work, job, relay)
                after = None if relay is None else relay.memory
                # An unchanged memory, which may be large, is with the parent already.
                line.send((answer, None if after is before else after))
                if not answer[0]:
                    break


def _attempted(work: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    try:
        return True, work(*arguments)
    except Exception as error:
        if not isinstance(error, StreamIcdError):  # pickling drops its traceback
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return False, error


def _live_no_longer_than_parent() -> None:
    """Ignore the signals that the parent handles, and end with the parent, even on `kill -9`."""
    for number in _FOR_THE_PARENT:
        signal.signal(number, signal.SIG_IGN)
    # Once they are ignored: those that came while the process started are dropped here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_THE_PARENT)
    parent = multiprocessing.parent_process()
    assert parent is not None, "only for a child process"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Meter:
    """Measures the resources used by process `pid` since the meter was created or last reset."""

    def __init__(self, pid: int) -> None:
        self._process: psutil.Process | None = None
        with suppress(psutil.NoSuchProcess):  # it has ended
            self._process = psutil.Process(pid)
        self.reset()

    def reset(self) -> None:
        self._since = time.monotonic()
        self._cpu, self._memory = self._now()

    def check(self, allowance: Allowance) -> None:
        """Raise OverBudget if a limit is exceeded; of a process that has ended, only that of time.

        Processor time is that of all its threads; memory is the growth of its resident memory.
        """
        cpu, memory = self._now()
        allowance.check(
            cpu_seconds=max(0.0, cpu - self._cpu),
            clock_seconds=self.clock_seconds,
            memory_bytes=max(0, memory - self._memory),
        )

    @property
    def clock_seconds(self) -> float:
        return time.monotonic() - self._since

    @property
    def is_running(self) -> bool:
        process = self._process
        with suppress(psutil.NoSuchProcess):
            if process is not None and process.is_running():
                return bool(process.status() != psutil.STATUS_ZOMBIE)
        return False

    @property
    def resident_bytes(self) -> int:
        return self._now()[1]

    def kill(self) -> None:
        """Kill the process, and no other that has got its id since it ended."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                self._process.kill()

    def _now(self) -> tuple[float, int]:
        if self._process is None:
            return 0.0, 0
        try:
            times, memory = self._process.cpu_times(), self._process.memory_info()
        except psutil.Error:  # it has ended
            return 0.0, 0
        return times.user + times.system, memory.rss
