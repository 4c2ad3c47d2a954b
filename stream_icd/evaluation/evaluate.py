"""Methods on the archived windows of one graph: what each finds, how well, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from stream_icd.evaluation.limits import MethodProcess, MethodRun, Status
from stream_icd.evaluation.measures import Measures, measure
from stream_icd.evaluation.method import OWN, Task
from stream_icd.evaluation.windows import Learned, Windows
from stream_icd.execution.budget import Allowance
from stream_icd.graphs.labelled_graph import Moment
from stream_icd.graphs.weights import comparable
from stream_icd.printable import safe_cells
from stream_icd.quality.hidden_edges import mean_hidden_edge_score
from stream_icd.replay.compare import Assignment, churn
from stream_icd.retraining.windows import Lesson
from stream_icd.store.whole_file import whole_file


@dataclass(frozen=True, slots=True)
class Result:
    """How one method did on one window.

    Attributes:
        status, detail: see `MethodRun`.
        seconds: processor time of finding the communities of the whole window.
        measures: None without a result; agreement with known communities where there are some.
        hidden_edges: how well communities found on 9/10 of the edges predict the others, in bits
            per edge; None if one of these runs has no result.
        stability: fraction of the nodes common with the window before that keep their community;
            None for the first window, and after a window without a result.
    """

    method: str
    snapshot: str
    status: Status
    detail: str = ""
    seconds: float = 0.0
    measures: Measures | None = None
    hidden_edges: float | None = None
    stability: float | None = None


def evaluate(
    windows: Windows,
    learned: Learned,
    limits: Allowance,
    seed: int = 0,
    packages: Sequence[str] = (OWN,),
) -> Iterator[Result]:
    """Run every method on every window, window by window; a result as soon as it is there.

    K is the snapshot's, where its source knows it. A method that is missing, fails or exceeds a
    limit has a result that says so.

    Args:
        learned: the methods, with what each learned (`windows.learn`).
    """
    runs = [
        _Run(name, of, seed, MethodProcess(packages, limits))
        for name, of in learned.of_method.items()
    ]
    try:
        for lesson in windows.newest():
            for run in runs:
                yield run.result(lesson)
    finally:
        for run in runs:
            run.process.end()


@dataclass(slots=True)
class _Run:
    """One method, in a process of its own, from window to window."""

    name: str
    learned: MethodRun
    seed: int
    process: MethodProcess
    before: Assignment | None = None
    memory: Any = None

    def result(self, lesson: Lesson) -> Result:
        snapshot, adjacency = lesson.snapshot, lesson.snapshot.adjacency()
        moment, learned = (
            Moment(snapshot.graph, snapshot.nodes, snapshot.window),
            self.learned.learned,
        )
        task = Task(adjacency, snapshot.n_communities, self.seed, learned, moment, self.memory)
        outcome = self._find(task)
        before, self.before = self.before, None
        if outcome.labels is None:
            return Result(self.name, snapshot.id, outcome.status, outcome.detail)
        self.memory = outcome.memory
        found = self.before = Assignment(snapshot.nodes, outcome.labels)
        hidden_edges = mean_hidden_edge_score(
            comparable(adjacency),
            lambda visible: self._find(replace(task, adjacency=visible)).labels,
            self.seed,
        )
        return Result(
            self.name,
            snapshot.id,
            outcome.status,
            seconds=outcome.seconds,
            measures=measure(adjacency, outcome.labels, lesson.labels),
            hidden_edges=hidden_edges,
            stability=None if before is None else 1 - churn(before, found),
        )

    def _find(self, task: Task) -> MethodRun:
        if self.learned.status != "ok":
            return self.learned
        return self.process.find(self.name, task)


def value_of(result: Result, name: str) -> float | None:
    """One of `NUMBERS` of a result; None where it has none."""
    if result.measures is None:
        return None
    holder: Result | Measures = result if hasattr(result, name) else result.measures
    value: float | None = getattr(holder, name)
    return value


TEXTS = ("method", "snapshot", "status", "detail")
NUMBERS = ("seconds", "hidden_edges", "stability", *(field.name for field in fields(Measures)))
"""Columns; the numbers of a window without a result are empty fields."""


def write_rows(path: Path, results: Sequence[Result]) -> None:
    """Write the file as a whole."""
    columns = {
        name: pa.array([getattr(result, name) for result in results], pa.string()) for name in TEXTS
    }
    columns |= {
        name: pa.array([value_of(result, name) for result in results], pa.float64())
        for name in NUMBERS
    }
    with whole_file(path) as aside:
        pyarrow.csv.write_csv(safe_cells(pa.table(columns)), aside)
