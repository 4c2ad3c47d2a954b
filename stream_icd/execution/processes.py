"""Local processes that run one job at a time, within its resource limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

import structlog

from stream_icd.errors import BadMemory, CrashedWorker, OverBudget, Overloaded, WorkersLost
from stream_icd.execution.budget import Allowance
from stream_icd.execution.relay import Chains, First, Link, Work, nothing
from stream_icd.execution.waiting import IN_HAND_OF_CHAINS, Waiting, in_order, next_job
from stream_icd.execution.worker_process import WorkerProcess
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.delivery.handler import DIED, GIVEN_UP_AFTER
from stream_icd.messages.records import Refused

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class InHand:
    """A job in progress: its wall-clock time since a process started it, and the limit of that."""

    name: str
    seconds: float
    allowed_seconds: float

    def __str__(self) -> str:
        return (
            f"in hand for {self.seconds:.0f} s, at most {self.allowed_seconds:.0f} s: {self.name}"
        )


class Processes(Generic[Job, Result]):
    """`count` processes that run jobs; a context manager that ends them on exit.

    They never outlive this process, even when it is killed. They ignore Ctrl-C and SIGTERM, which a
    terminal or a supervisor sends to the whole process group: this process handles them.

    A process whose job exceeds its limits is killed, and the job is refused. If a process is
    killed from outside, for example when memory runs out, or gets no memory, its job has failed, or
    is run again. In all cases another process replaces it, and other jobs are not affected. So a
    job must be safe to run twice. If it fails with what the job before handed on, it is run once
    more with what `Work.instead` makes of that.

    Args:
        opening: creates, in each process, the function that runs a job; can be pickled. See
            `WorkerProcess`.
        work: names the jobs, their chains and their resource limits; outside the processes.
        again: run a job again that ended its process; else the caller counts, and decides.
    """

    def __init__(
        self,
        opening: Callable[[], Callable[..., Result]],
        count: int,
        work: Work[Job, Result],
        *,
        again: bool = True,
    ) -> None:
        self._count = count
        self._again = again
        self._opening = opening
        self._work = work
        self._lock = threading.Lock()
        self._closed = False
        self._all: set[WorkerProcess] = set()
        self._at: dict[WorkerProcess, tuple[Job, Allowance, float]] = {}
        self._waiting: list[Waiting[Job, Result]] = []
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count, "process")  # one thread waits for each process
        self._open = [self._threads.submit(self._opened, self._start()) for _ in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._closed = True
            for process in self._all:
                process.end()
        self._threads.shutdown(cancel_futures=True)

    @property
    def alive(self) -> int:
        with self._lock:
            return sum(process.is_alive for process in self._all)

    @property
    def resident_bytes(self) -> int:
        with self._lock:
            return sum(process.resident_bytes for process in self._all)

    def wait_until_warm(self, stop: Stop) -> None:
        """Return when all processes are open and warm, or `stop` is set.

        Raises:
            WorkersLost, ModelError, BadInput: a process could not be opened.
        """
        waiting = set(self._open)
        while waiting and not stop.is_set():
            done, waiting = futures.wait(waiting, timeout=0.1)
            for future in done:
                future.result()

    @property
    def in_hand(self) -> list[InHand]:
        """The jobs in progress, the longest-running first."""
        now = time.monotonic()
        with self._lock:
            at = sorted(self._at.values(), key=lambda one: one[2])
        return [
            InHand(self._work.name(job), now - since, allowance.clock_seconds)
            for job, allowance, since in at
        ]

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Result | Refused]]:
        """Run the jobs, as an `Engine`; see `next_job` for the order in which they begin.

        Raises:
            CrashedWorker: a process was ended from outside, or got no memory.
            Overloaded: with `again`, that happened in each of 3 attempts at a job.
            WorkersLost: no process could be opened. Errors of jobs are raised as well.
        """
        chains = Chains(first)

        def submit(some: Sequence[Job]) -> list[Future[Result]]:
            added: list[Waiting[Job, Result]] = [
                Waiting(job, chains.link(self._work.chain(job))) for job in some
            ]
            with self._lock:
                self._waiting += added
            for _ in added:
                self._threads.submit(self._run_next)
            return [one.future for one in added]

        try:
            yield from in_order(jobs, submit, _outcome, self._count * IN_HAND_OF_CHAINS)
        except BaseException:
            with self._lock:
                for one in self._waiting:
                    one.future.cancel()
                for process in self._at:
                    process.end()
            raise

    def _run_next(self) -> None:
        with self._lock:
            one = next_job(self._waiting)
        try:
            if one.future.set_running_or_notify_cancel():
                one.future.set_result(self._done(one.job, one.link))
        except BaseException as error:
            one.future.set_exception(error)
        finally:
            if one.link is not None:
                one.link.ended()

    def _opened(self, process: WorkerProcess) -> None:
        try:
            process = self._open_one(process)
        finally:
            self._idle.put(process)
        succeeded, error = process.opened()
        if not succeeded:
            raise error

    def _open_one(self, process: WorkerProcess) -> WorkerProcess:
        """Wait until a process is open; if it ends before, try others. Raises WorkersLost."""
        for attempt in range(1, GIVEN_UP_AFTER + 1):
            with suppress(EOFError, OSError):
                process.opened()
                if process.is_alive:
                    return process
            process = self._replaced(process, "it ended before it had a job", attempt=attempt)
        raise WorkersLost(
            f"{GIVEN_UP_AFTER} worker processes in a row ended before they were ready: see their "
            f"log. If memory is short, give more memory, or fewer than {self._count} processes"
        )

    def _done(self, job: Job, link: Link | None) -> Result:
        """Run a job; if it fails with what the job before handed on, run it without that."""
        try:
            return self._result(job, link)
        except (OverBudget, Overloaded, BadMemory) as error:
            if link is None or link.took is None or link.instead is not None:
                raise
            log = structlog.get_logger()
            log.warning("memory cannot be used", job=self._work.name(job), reason=str(error))
            link.instead = self._work.instead(link.took)
            return self._result(job, link)

    def _result(self, job: Job, link: Link | None) -> Result:
        allowance, name = self._work.allowance(job), self._work.name(job)
        for attempt in range(1, GIVEN_UP_AFTER + 1):
            process = self._idle.get()
            try:
                process = self._open_one(process)
                with self._noted(process, job, allowance):
                    succeeded, result = process.do(job, allowance, link)
                if isinstance(result, MemoryError):
                    raise result
            except OverBudget:
                process = self._replaced(process, "its job was over budget", job=name)
                raise
            except (EOFError, OSError, MemoryError) as error:
                short = isinstance(error, MemoryError)
                reason = "it got no memory" if short else "it was ended from outside"
                process = self._replaced(process, reason, job=name, attempt=attempt)
                if not self._again:
                    killed = f"{DIED}: a worker process, ended from outside"
                    raise CrashedWorker(f"MemoryError: {error}" if short else killed) from error
                continue
            finally:
                self._idle.put(process)
            if not succeeded:
                raise result
            return result  # type: ignore[no-any-return]
        raise Overloaded(
            f"{name}: {GIVEN_UP_AFTER} worker processes were killed, or got no memory, while they "
            f"worked on it: give more memory, or fewer than {self._count} processes. Completed "
            "work is kept"
        )

    @contextmanager
    def _noted(self, process: WorkerProcess, job: Job, allowance: Allowance) -> Iterator[None]:
        with self._lock:
            self._at[process] = job, allowance, time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._at[process]

    def _replaced(self, process: WorkerProcess, reason: str, **about: object) -> WorkerProcess:
        status = process.end()
        with self._lock:
            self._all.discard(process)
            if self._closed:
                raise EOFError("the processes are closed")
        log = structlog.get_logger()
        log.warning("a worker process was replaced", reason=reason, status=status, **about)
        return self._start()

    def _start(self) -> WorkerProcess:
        with self._lock:
            process = WorkerProcess(self._opening)
            self._all.add(process)
            return process


def _outcome(future: Future[Result]) -> Result | Refused:
    try:
        return future.result()
    except OverBudget as error:
        return Refused("budget", error)
