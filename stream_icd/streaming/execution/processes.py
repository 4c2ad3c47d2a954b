"""Worker processes on this machine, each of which runs one job at a time within its limits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar

import structlog
from threadpoolctl import threadpool_limits

from stream_icd.core.errors import (
    CrashedWorker,
    ModelDamaged,
    OverBudget,
    Overloaded,
    WorkersLost,
)
from stream_icd.core.imports import without_pandas
from stream_icd.kafka.delivery.handler import DIED, GIVEN_UP_AFTER
from stream_icd.kafka.messages.records import Refused
from stream_icd.kafka.waiting import Stop
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.execution.work import (
    IN_HAND_OF_CHAINS,
    Engine,
    First,
    Relay,
    Waiting,
    Work,
    in_order,
    next_jobs,
    run_job,
)
from stream_icd.streaming.execution.worker_process import WorkerProcess

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class InHand:
    """A job in progress: its wall-clock time, and the limit of that."""

    name: str
    seconds: float
    allowed_seconds: float

    def __str__(self) -> str:
        return (
            f"in hand for {self.seconds:.0f} s, at most {self.allowed_seconds:.0f} s: {self.name}"
        )


class Processes(Generic[_Job, _Result]):
    """`count` processes that run jobs, an `Engine`; a context manager that ends them on exit.

    Each opens the model once. They never outlive this process, even when it is killed. They ignore
    Ctrl-C and SIGTERM, which a terminal or a supervisor sends to the whole process group: this
    process handles them.

    A process whose job exceeds its limits is killed, and the job is refused. If a process is
    killed from outside, for example when memory runs out, or gets no memory, its job has failed, or
    is run again. In all cases another process replaces it, and other jobs are not affected. So a
    job must be safe to run twice. If it fails with the memory of its graph, it is run again, and
    the graph starts anew.

    Args:
        model_name: where a process finds its model.
        again: run a job again that ended its process; else raise `CrashedWorker`: a consumer of a
            stream counts what records end, over restarts.
    """

    def __init__(
        self, work: Work[_Job, _Result], model_name: str, count: int, *, again: bool = True
    ) -> None:
        self._count = count
        self._again = again
        self._opening = partial(
            _open_work, type(work), model_name, work.model.version, work.settings
        )
        self._work = work
        self._lock = threading.Lock()
        self._closed = False
        self._all: set[WorkerProcess] = set()
        self._at: dict[WorkerProcess, list[Waiting[_Job, _Result | Refused]]] = {}
        self._waiting: list[Waiting[_Job, _Result | Refused]] = []
        self._running: set[str] = set()  # chains of which a process has jobs
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count, "process")  # one thread waits for each process
        self._open = list[Future[None]]()
        try:
            for _ in range(count):
                self._open.append(self._threads.submit(self._opened, self._start()))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            # First, or a thread would replace each process that is killed here.
            self._closed = True
            for job in self._waiting:
                job.future.cancel()
            for process in self._all:
                process.end()
        # Without the lock, which threads need to notice that their process has ended.
        self._threads.shutdown(cancel_futures=True)

    @property
    def alive(self) -> int:
        with self._lock:
            return sum(process.is_alive for process in self._all)

    @property
    def resident_bytes(self) -> int:
        with self._lock:
            return sum(process.meter.resident_bytes for process in self._all)

    def wait_until_warm(self, stop: Stop) -> None:
        """Return when all processes are open and warm, or `stop` is set.

        Raises `WorkersLost`, `ModelError` or `BadInput` if one could not be opened.
        """
        waiting = set(self._open)
        while waiting and not stop.is_set():
            done, waiting = futures.wait(waiting, timeout=0.1)
            for future in done:
                future.result()

    @property
    def in_hand(self) -> list[InHand]:
        """The jobs in progress, the longest-running first."""
        with self._lock:
            at_work = [(process.at_work, process.meter.clock_seconds) for process in self._at]
        jobs = []
        for in_progress, seconds in at_work:
            if in_progress is not None:
                job, allowance = in_progress
                jobs.append(InHand(self._work.name(job), seconds, allowance.clock_seconds))
        return sorted(jobs, key=lambda job: job.seconds, reverse=True)

    def __call__(
        self, jobs: Iterable[_Job], first: First = Relay.empty, /
    ) -> Iterator[tuple[_Job, _Result | Refused]]:
        """Run the jobs, as an `Engine`; see `next_jobs` for the order in which they begin.

        Raises:
            CrashedWorker: a process ended during a job, or got no memory.
            Overloaded: with `again`, that happened in each of 3 attempts at a job.
            WorkersLost: no process could be opened. Errors of jobs are raised as well.
        """
        relays: dict[str, Relay] = {}

        def waiting(job: _Job) -> Waiting[_Job, _Result | Refused]:
            chain, allowance = self._work.chain(job), self._work.allowance(job)
            if chain is None:
                return Waiting(job, allowance)
            if chain not in relays:
                relays[chain] = first(chain)
            return Waiting(job, allowance, chain, relays[chain])

        def submit(submitted: Sequence[_Job]) -> list[Future[_Result | Refused]]:
            added = list(map(waiting, submitted))
            with self._lock:
                # All before a thread looks: the choice of `next_jobs` depends on what waits.
                self._waiting += added
            for _ in added[: self._count]:
                self._threads.submit(self._run_next)
            return [job.future for job in added]

        try:
            yield from in_order(jobs, submit, Future.result, self._count * IN_HAND_OF_CHAINS)
        except BaseException:
            with self._lock:
                # Cancelled before their processes end, so that no thread runs a job again.
                for job in chain(self._waiting, *self._at.values()):
                    job.future.cancel()
                self._waiting.clear()
                for process in self._at:
                    process.end()
            raise

    def _run_next(self) -> None:
        """Run jobs until all that are left are of chains that other threads go on with."""
        if not (jobs := self._next_jobs()):
            return
        process = self._idle.get()
        try:
            while jobs:
                process = self._finish(jobs, process)
                jobs = self._next_jobs(jobs)
        finally:
            self._idle.put(process)  # or a thread that waits for it would wait for ever

    def _finish(
        self, jobs: list[Waiting[_Job, _Result | Refused]], process: WorkerProcess
    ) -> WorkerProcess:
        """Run jobs until each has an outcome; what is left when one fails is run again.

        Returns the process, or the last one that has replaced it.
        """
        while jobs := [job for job in jobs if not job.future.done()]:
            try:
                process = self._run(jobs, process)
            except BaseException as error:  # no process is left to run them
                for job in jobs:
                    job.failed(error)
        return process

    def _next_jobs(
        self, ended: Sequence[Waiting[_Job, _Result | Refused]] = ()
    ) -> list[Waiting[_Job, _Result | Refused]]:
        """Take the next jobs after those that ended; another thread looks at what is left."""
        with self._lock:
            # Before the choice, or nobody would take the jobs that are left of these chains.
            self._running.difference_update(job.chain for job in ended if job.chain is not None)
            jobs = next_jobs(self._waiting, self._count, self._running)
            if ended and self._waiting and not self._closed:
                self._threads.submit(self._run_next)
        return jobs

    def _run(
        self, jobs: list[Waiting[_Job, _Result | Refused]], process: WorkerProcess
    ) -> WorkerProcess:
        """Run jobs one after the other in a process until one fails, which may then run again.

        Returns the process, or the one that has replaced it.
        """
        job = jobs[0]
        # What a job begins with instead of its memory is for it alone: the others wait.
        sent = jobs if job.instead is None else jobs[:1]
        try:
            process = self._open_one(process)
            with self._lock:
                self._at[process] = jobs
            answers = process.run(sent)
            for job in sent:
                succeeded, result = next(answers)
                if isinstance(result, MemoryError):
                    raise result
                if not succeeded:
                    self._failed(job, result)
                    break
                job.done(result)
        except OverBudget as error:
            process = self._replaced(process, "its job was over budget", job=self._name(job))
            self._failed(job, error)
        except (EOFError, OSError, MemoryError) as error:
            short = isinstance(error, MemoryError)
            reason = "it got no memory" if short else "it ended during its job"
            if job.future.cancelled():
                reason = "another job of the batch failed"
            job.attempts += 1
            status = process.end()
            about = {"job": self._name(job), "attempt": job.attempts}
            process = self._replaced(process, reason, **about)
            if not self._again:
                died = f"{DIED}: a worker process, with exit status {status}"
                self._failed(job, CrashedWorker(f"MemoryError: {error}" if short else died))
            elif job.attempts == GIVEN_UP_AFTER:
                overloaded = Overloaded(
                    f"{self._name(job)}: {GIVEN_UP_AFTER} worker processes were killed, or got no "
                    "memory, while they worked on it: give more memory, or fewer than "
                    f"{self._count} processes. Completed work is kept"
                )
                self._failed(job, overloaded)
        finally:
            with self._lock:
                self._at.pop(process, None)
        return process

    def _opened(self, process: WorkerProcess) -> None:
        try:
            process = self._open_one(process)
        finally:
            # Also one that could not open: a job that waits for a process is told why by it.
            self._idle.put(process)
        succeeded, error = process.opened()
        if not succeeded:
            raise error

    def _open_one(self, process: WorkerProcess) -> WorkerProcess:
        """Wait until a process is open; if it ends before, try others. Raises WorkersLost."""
        for attempt in range(1, GIVEN_UP_AFTER + 1):
            with suppress(EOFError, OSError):
                succeeded, _error = process.opened()
                # One that cannot open the model says why, and ends; the next would say the same.
                if not succeeded or process.is_alive:
                    return process
            process = self._replaced(process, "it ended before it had a job", attempt=attempt)
        raise WorkersLost(
            f"{GIVEN_UP_AFTER} worker processes in a row ended before they were ready: see their "
            f"log. If memory is short, give more memory, or fewer than {self._count} processes"
        )

    def _failed(self, job: Waiting[_Job, _Result | Refused], error: BaseException) -> None:
        """Give a job up; but if it failed with the memory of its graph, that starts anew."""
        ended = isinstance(error, OverBudget | Overloaded)
        if ended and job.start_anew(self._name(job), error):
            return
        if isinstance(error, OverBudget):
            job.done(Refused("budget", error))
        else:
            job.failed(error)

    def _name(self, job: Waiting[_Job, _Result | Refused]) -> str:
        return self._work.name(job.job)

    def _replaced(self, process: WorkerProcess, reason: str, **about: object) -> WorkerProcess:
        status = process.end()
        with self._lock:
            self._all.discard(process)
            self._at.pop(process, None)
        replacement = self._start()
        log = structlog.get_logger()
        log.warning("a worker process was replaced", reason=reason, status=status, **about)
        return replacement

    def _start(self) -> WorkerProcess:
        with self._lock:
            if self._closed:
                raise EOFError("the processes are closed")
            process = WorkerProcess(self._opening)
            self._all.add(process)
            return process


def in_processes(
    work: Work[_Job, _Result], model_name: str, count: int
) -> Engine[_Job, _Result | Refused]:
    """Return an engine whose `Processes` start when it is called, and end with its last job."""

    def engine(jobs: Iterable[_Job], first: First) -> Iterator[tuple[_Job, _Result | Refused]]:
        with Processes(work, model_name, count) as processes:
            yield from processes(jobs, first)

    return engine


def _open_work(
    kind: Callable[[VersionedModel, Any], Any],
    model_name: str,
    version: str,
    settings: Any,
) -> Any:
    """Create the work in a worker process; raise ModelDamaged if the model has changed."""
    without_pandas()
    threadpool_limits(settings.threads)
    model = open_model(model_name)
    if model.version != version:
        raise ModelDamaged(f"model {model_name} was {version} and is now {model.version}")
    work = kind(model, settings)
    work.warm_up()
    return partial(run_job, work)
