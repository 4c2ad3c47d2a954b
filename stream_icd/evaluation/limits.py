"""Methods in a process of their own, within limits: a crash or a time-out is an outcome."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from stream_icd.arrays import Labels, compact
from stream_icd.errors import BadSettings, OverBudget
from stream_icd.evaluation.method import CONVERT, Method, Remembering, Task, cpu_clock, methods_in
from stream_icd.execution.usage import Allowance
from stream_icd.execution.worker_process import WorkerProcess
from stream_icd.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.synthetic.gn import generate_gn

Status = Literal["ok", "missing", "error", "crash", "limit"]
"""How a run ended: with a result; its library is missing; it raised an error; its process ended;
it exceeded its time or memory."""

REPEATED_BELOW = 2.0
"""Seconds below which a run on the largest graph so far is repeated, and the second counts: it may
need code that smaller ones did not compile."""


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """How a run ended.

    Attributes:
        detail: why there is no result; "" if there is one.
        labels: community of each node, `(n,)` in 0..K-1; None without a result.
        learned: what learning returned.
        memory: what a method with memory remembers for the next window.
        seconds: processor time, without the stage `CONVERT`. A method runs on one thread, so this
            is the time that it takes on an idle core.
        stages: seconds of each stage.
        clock_seconds: wall-clock time of all stages.
        peak_bytes: growth of memory at its peak; None where the system does not tell (not Linux).
    """

    status: Status
    detail: str = ""
    labels: Labels | None = None
    learned: Any = None
    memory: Any = None
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    clock_seconds: float = 0.0
    peak_bytes: int | None = None


class MethodProcess:
    """Runs methods in one process, and starts another process after one has ended.

    In each process, a method first runs on a small graph, without measuring, and its first graph
    twice if that is quick, so that no result pays for imports and compilation. Numeric libraries
    use one thread.

    Args:
        packages: where the methods are; see `methods_in`.
        limits: for each run.
    """

    def __init__(self, packages: Sequence[str], limits: Allowance) -> None:
        self._methods = methods_in(*packages)
        self._open = partial(Runner, tuple(packages))
        self._limits = limits
        self._process: WorkerProcess | None = None

    def learn(self, name: str, history: Sequence[LabelledGraph], seed: int) -> MethodRun:
        """Let a method learn from past graphs; nothing is learned if the method cannot."""
        return self._run(Learning(name, tuple(history), seed))

    def find(
        self,
        name: str,
        adjacency: csr_array,
        n_communities: int | None = None,
        seed: int = 0,
        learned: Any = None,
        moment: Moment | None = None,
        memory: Any = None,
    ) -> MethodRun:
        """Let a method find communities; `Task` says what each argument is."""
        job = Finding(name, adjacency, n_communities, seed, learned, moment, memory)
        return self._run(job)

    def end(self) -> int | None:
        """End the process; return its exit status, None if there was none."""
        process, self._process = self._process, None
        return None if process is None else process.end()

    def _run(self, job: Learning | Finding) -> MethodRun:
        missing = self._methods[job.method].missing()
        if missing is not None:
            return MethodRun("missing", missing)
        if self._process is None:
            self._process = WorkerProcess(self._open)
        started = time.perf_counter()
        try:
            succeeded, result = self._process.do(job, self._limits)
        except OverBudget as error:
            self.end()
            return MethodRun("limit", str(error), clock_seconds=time.perf_counter() - started)
        except (EOFError, OSError):
            detail = f"its process ended with exit status {self.end()}"
            return MethodRun("crash", detail, clock_seconds=time.perf_counter() - started)
        if not succeeded:
            return MethodRun("error", _in_one_line(result))
        outcome: MethodRun = result
        return outcome


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """A job: a method learns from past graphs."""

    method: str
    history: tuple[LabelledGraph, ...]
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """A job: a method finds the communities of a graph."""

    method: str
    adjacency: csr_array
    n_communities: int | None
    seed: int
    learned: Any
    moment: Moment | None = None
    memory: Any = None


class Runner:
    """Runs jobs in this process, without limits."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._methods = methods_in(*packages)
        self._largest: dict[str, int] = {}
        threadpool_limits(1)

    def __call__(self, job: Learning | Finding) -> MethodRun:
        method = self._methods[job.method]
        try:
            if isinstance(job, Learning):
                return _measured(lambda: MethodRun("ok", learned=_learn(method, job)), {})
            if job.method not in self._largest:
                _warm_up(method, job)
            largest, n_nodes = self._largest.get(job.method, 0), job.adjacency.shape[0]
            self._largest[job.method] = max(largest, n_nodes)
            first = _find(method, job)
            if n_nodes <= largest or first.seconds > REPEATED_BELOW:
                return first
            return _find(method, job)
        except Exception as error:  # it may not be possible to pickle the error itself
            return MethodRun("error", _in_one_line(error))


def _warm_up(method: Method, job: Finding) -> None:
    """Run on a small graph; if that fails, the run that is measured tells why."""
    graph = generate_gn(np.random.default_rng(0), 60, 3, 0.5, 0.02).adjacency()
    k = None if job.n_communities is None else 3
    with suppress(Exception):
        small = replace(job, adjacency=graph, n_communities=k, moment=None, memory=None)
        method.find(_task(method, small))


def _find(method: Method, job: Finding) -> MethodRun:
    task = _task(method, job)
    outcome = _measured(lambda: _outcome(method.find(task)), task.stages)
    labels, n_nodes = np.asarray(outcome.labels), job.adjacency.shape[0]
    if labels.shape != (n_nodes,) or labels.dtype.kind not in "iu":
        raise TypeError(f"labels are {labels.dtype} of shape {labels.shape}, not ({n_nodes},)")
    return replace(outcome, labels=compact(labels).astype(np.int32))


def _outcome(found: Labels | Remembering) -> MethodRun:
    if isinstance(found, Remembering):
        return MethodRun("ok", labels=found.labels, memory=found.memory)
    return MethodRun("ok", labels=found)


def _task(method: Method, job: Finding) -> Task:
    adjacency = job.adjacency
    if not method.weighted:
        adjacency = adjacency.copy()
        adjacency.data[:] = 1.0
    k = None if method.k == "ignored" else job.n_communities
    if method.k == "needed" and k is None:
        raise BadSettings("needs the number of communities")
    return Task(adjacency, k, job.seed, job.learned, job.moment, job.memory)


def _learn(method: Method, job: Learning) -> Any:
    return None if method.learn is None else method.learn(job.history, job.seed)


def _measured(run: Callable[[], MethodRun], stages: dict[str, float]) -> MethodRun:
    before = _reset_peak()
    started, clock_started = cpu_clock(), time.perf_counter()
    result = run()
    seconds, clock_seconds = cpu_clock() - started, time.perf_counter() - clock_started
    peak = _status_bytes("VmHWM")
    return replace(
        result,
        seconds=seconds - stages.get(CONVERT, 0.0),
        stages=dict(stages),
        clock_seconds=clock_seconds,
        peak_bytes=None if before is None or peak is None else max(0, peak - before),
    )


def _reset_peak() -> int | None:
    """Forget the peak of this process's memory so far; return the memory it has now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status_bytes("VmRSS")


def _status_bytes(name: str) -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def _in_one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
