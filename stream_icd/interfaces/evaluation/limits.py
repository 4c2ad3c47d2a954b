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
from threadpoolctl import threadpool_limits

from stream_icd.core.arrays import Labels, as_labels
from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.interfaces.evaluation.method import (
    CONVERT,
    EvaluatedMethod,
    FollowedWindow,
    Task,
    cpu_clock,
    methods_in,
)
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.worker_process import WorkerProcess

Status = Literal["ok", "missing", "error", "crash", "limit"]
"""How a run ended: with a result; its library is missing; it raised an error; its process ended;
it exceeded its time or memory."""

_History = tuple[tuple[LabelledGraph, ...], int]
"""Past graphs for a method to learn from, and the seed."""

_REPEATED_BELOW = 2.0
"""Seconds below which a run on the largest graph so far is repeated, and the second counts: it may
need code that smaller ones did not compile."""


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """How a run ended.

    A method runs on one thread, so processor time is the time that it takes on an idle core.
    """

    status: Status
    detail: str = ""  # why there is no result
    labels: Labels | None = None  # (n,) in 0..K-1
    learned: Any = None  # what learning returned
    memory: Any = None  # what a method with memory remembers for the next window
    seconds: float = 0.0  # processor time, without the stage `CONVERT`
    stages: dict[str, float] = field(default_factory=dict)  # seconds of each
    clock_seconds: float = 0.0  # wall-clock time of all stages
    peak_bytes: int | None = None  # growth of memory at its peak; None where not Linux


class MethodProcess:
    """Runs the methods of some packages in one process, and starts another after one has ended.

    In each process, a method first runs on a small graph, without measuring, and its first graph
    twice if that is quick, so that no result pays for imports and compilation. Numeric libraries
    use one thread. The limits are for each run.
    """

    def __init__(self, packages: Sequence[str], limits: Allowance) -> None:
        self._methods = methods_in(*packages)
        self._open = partial(InProcessRunner, tuple(packages))
        self._limits = limits
        self._process: WorkerProcess | None = None

    def learn(self, name: str, history: Sequence[LabelledGraph], seed: int) -> MethodRun:
        """Let a method learn from past graphs; nothing is learned if the method cannot."""
        return self._run(name, (tuple(history), seed))

    def find(self, name: str, task: Task) -> MethodRun:
        """Let a method find communities."""
        return self._run(name, task)

    def end(self) -> int | None:
        """End the process, if there is one; return its exit status."""
        process, self._process = self._process, None
        return None if process is None else process.end()

    def _run(self, name: str, job: _History | Task) -> MethodRun:
        missing = self._methods[name].missing()
        if missing is not None:
            return MethodRun("missing", missing)
        if self._process is None:
            self._process = WorkerProcess(self._open)
        started = time.perf_counter()
        try:
            succeeded, result = self._process.do((name, job), self._limits)
        except OverBudget as error:
            self.end()  # the next run starts another process
            return MethodRun("limit", str(error), clock_seconds=time.perf_counter() - started)
        except (EOFError, OSError):
            detail = f"its process ended with exit status {self.end()}"
            return MethodRun("crash", detail, clock_seconds=time.perf_counter() - started)
        if not succeeded:
            return MethodRun("error", _in_one_line(result))
        outcome: MethodRun = result
        return outcome


class InProcessRunner:
    """Runs methods in this process, without limits; a job is a method's name and its work."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._methods = methods_in(*packages)
        self._largest: dict[str, int] = {}
        threadpool_limits(1)  # processor time is then the time on an idle core

    def __call__(self, job: tuple[str, _History | Task]) -> MethodRun:
        name, work = job
        method = self._methods[name]
        try:
            if not isinstance(work, Task):
                history, seed = work
                learn = method.learn or (lambda _history, _seed: None)
                return _measured(lambda: MethodRun("ok", learned=learn(history, seed)), {})
            if name not in self._largest:
                _warm_up(method, work)  # before the clock: imports and compilation cost once
            largest, n_nodes = self._largest.get(name, 0), work.adjacency.shape[0]
            self._largest[name] = max(largest, n_nodes)
            first = _find(method, work)
            if n_nodes <= largest or first.seconds > _REPEATED_BELOW:
                return first
            return _find(method, work)
        except Exception as error:  # it may not be possible to pickle the error itself
            return MethodRun("error", _in_one_line(error))


def _warm_up(method: EvaluatedMethod, task: Task) -> None:
    """Run on a small graph; if that fails, the run that is measured tells why."""
    graph = generate_gn(np.random.default_rng(0), 60, 3, 0.5, 0.02).adjacency()
    k = None if task.n_communities is None else 3
    with suppress(Exception):
        small = replace(task, adjacency=graph, n_communities=k, moment=None, memory=None)
        method.find(_suited(small, method))


def _find(method: EvaluatedMethod, task: Task) -> MethodRun:
    task = _suited(task, method)

    def run() -> MethodRun:
        communities = method.find(task)
        if isinstance(communities, FollowedWindow):
            return MethodRun("ok", labels=communities.labels, memory=communities.memory)
        return MethodRun("ok", labels=communities)

    outcome = _measured(run, task.stages)
    labels, n_nodes = np.asarray(outcome.labels), task.adjacency.shape[0]
    if labels.shape != (n_nodes,) or labels.dtype.kind not in "iu":
        raise TypeError(f"labels are {labels.dtype} of shape {labels.shape}, not ({n_nodes},)")
    return replace(outcome, labels=as_labels(labels).astype(np.int32))


def _suited(task: Task, method: EvaluatedMethod) -> Task:
    """The task with the weights and the K that the method uses, and without stages."""
    adjacency = task.adjacency
    if not method.weighted:
        adjacency = adjacency.copy()
        adjacency.data[:] = 1.0
    k = None if method.k == "ignored" else task.n_communities
    if method.k == "needed" and k is None:
        raise BadSettings("needs the number of communities")
    return replace(task, adjacency=adjacency, n_communities=k, stages={})


def _measured(run: Callable[[], MethodRun], stages: dict[str, float]) -> MethodRun:
    before = _reset_peak()  # first: it is not part of what is timed
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
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return 1024 * int(match[1]) if match else None


def _in_one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
