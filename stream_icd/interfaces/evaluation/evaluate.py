"""Methods on the archived windows of one graph: what each learns and finds, how well, how fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadSettings, OverBudget, Overloaded
from stream_icd.core.printable import listed
from stream_icd.core.store.store import Store
from stream_icd.core.times import AHEAD
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.replay.compare import LabelledNodes, churn
from stream_icd.interfaces.evaluation.limits import MethodProcess, MethodRun, Status
from stream_icd.interfaces.evaluation.method import OWN, Task, methods_in
from stream_icd.learning.retraining.learn import run_training
from stream_icd.learning.retraining.windows import Accumulated, ArchivedLesson, Lesson
from stream_icd.learning.training.yardstick import ModelComparison, compared_with_default
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import accuracy, ami, nmi, of_known
from stream_icd.methods.quality.partition import mean_hidden_edge_score, modularity, ncut
from stream_icd.streaming.execution.budget import Allowance

_Learned = dict[str, MethodRun]  # what became of each method's learning, by name


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Methods on the windows of one graph in an archive, in time order; each is read when needed.

    What a method learns and finds is within the limits, which are for each run.
    """

    archive: Archive
    graph: str
    before: tuple[ArchivedLesson, ...]  # windows to learn from
    evaluated: tuple[ArchivedLesson, ...]
    limits: Allowance
    seed: int = 0
    packages: Sequence[str] = (OWN,)  # of the methods

    @classmethod
    def open(
        cls,
        store: Store,
        graph: str | None,
        n_windows: int,
        n_past: int,
        now: datetime,
        limits: Allowance,
        seed: int = 0,
    ) -> Evaluation:
        """Look up the newest windows of a graph, and up to n_past before them to learn from.

        Windows far ahead of `now` are not used; nor those before that overlap the newest.

        Raises:
            SourceNotFound: there is no archive, or it is empty.
            BadSettings: it has no such graph, or several and none was named; or all its windows are
                far ahead.
        """
        archive = Archive(store)
        archived = Accumulated.look_up(archive, now, graph, n_windows + n_past)
        names = sorted({window.partition.graph for window in archived.windows})
        if archived.ahead and not names:
            raise BadSettings(
                f"all windows of {store.place} end more than {AHEAD.days} days ahead of the clock"
            )
        if not names:
            raise archive.nothing_selected(Selection(graph=graph))
        if len(names) > 1:
            raise BadSettings(
                f"{store.place} holds several graphs: give --graph, of {listed(names)}"
            )
        newest = archived.windows[-n_windows:]
        before = archived.windows[: -len(newest)]
        # A method that has seen edges of an evaluated window would predict those that are hidden.
        past = [window for window in before if window.window.end <= newest[0].window.start]
        return cls(
            archive, names[0], archived.lessons(past), archived.lessons(newest), limits, seed
        )

    def past(self) -> list[LabelledGraph]:
        """Graphs to learn from, with their communities where all are known."""
        return [self._read(archived).graph(by_labels=True) for archived in self.before]

    def newest(self) -> Iterator[Lesson]:
        """Windows to evaluate."""
        return map(self._read, self.evaluated)

    def __len__(self) -> int:
        return len(self.evaluated)

    def learn(self, names: Sequence[str]) -> _Learned:
        """Let the methods learn from the past windows; those that learn alike do it once."""
        methods = methods_in(*self.packages)
        process = MethodProcess(self.packages, self.limits)
        past, runs = self.past(), dict[object, MethodRun]()
        try:
            for name in names if past else ():
                if (learning := methods[name].learn) is not None and learning not in runs:
                    runs[learning] = process.learn(name, past, self.seed)
        finally:
            process.end()
        return {name: runs.get(methods[name].learn, MethodRun("ok")) for name in names}

    def worth(self, learned: _Learned) -> list[ModelComparison] | None:
        """Compare what bp learned with the model `default`, with memory, on the evaluated windows.

        Empty if bp learned nothing, or nothing can be compared; None if that exceeds the limits.
        """
        results = (run.learned for run in learned.values())
        bp = next((result for result in results if isinstance(result, BpParameters)), None)
        if bp is None:
            return []
        try:
            compared: list[ModelComparison] = run_training(partial(self._compared, bp), self.limits)
        except (OverBudget, Overloaded):
            return None
        return compared

    def results(self, learned: _Learned) -> Iterator[WindowResult]:
        """Run every method of `learned` on every window; yield each result as soon as it is there.

        K is the snapshot's, where its source knows it. A method that is missing, fails or exceeds a
        limit has a result that says so.
        """
        runs = [
            _Run(name, run, self.seed, MethodProcess(self.packages, self.limits))
            for name, run in learned.items()
        ]
        try:
            for lesson in self.newest():
                for run in runs:
                    yield run.result(lesson)
        finally:  # also if the caller does not take all of them
            for run in runs:
                run.process.end()

    def _read(self, archived: ArchivedLesson) -> Lesson:
        window, labels = archived
        return Lesson.read(self.archive, window, labels)

    def _compared(self, bp: BpParameters) -> list[ModelComparison]:
        newest = (lesson.graph(by_labels=True) for lesson in self.newest())
        model = Model(Recipe(name="learned"), bp)
        return compared_with_default(model, self.past(), newest, self.seed, memory=True)


@dataclass(frozen=True, slots=True)
class Measures:
    """How good a partition is; fractions, not percent.

    `nmi` and `ac` are the agreement with the true communities as in the paper, `ami` and `ari` the
    same adjusted for chance; None if no true community is known.
    """

    n_communities: int
    modularity: float
    ncut: float
    nmi: float | None = None
    ac: float | None = None
    ami: float | None = None
    ari: float | None = None


def measure(
    adjacency: csr_array, labels: Labels, truth: NDArray[np.int32] | None = None
) -> Measures:
    """Measure a partition; its agreement on the nodes whose community is known.

    adjacency: (n, n), with its weights; labels: (n,); truth: (n,), -1 where it is not known.

    >>> pair = csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> measure(pair, np.array([0, 0], np.int32), np.array([1, 1], np.int32)).ari
    1.0
    """
    measures = Measures(
        n_communities=len(np.unique(labels)),
        modularity=modularity(adjacency, labels),
        ncut=ncut(adjacency, labels),
    )
    if truth is None or (truth < 0).all():
        return measures
    from sklearn.metrics import adjusted_rand_score  # takes long to import

    true_labels, found_labels = of_known(truth, labels)
    return replace(
        measures,
        nmi=nmi(true_labels, found_labels),
        ac=accuracy(true_labels, found_labels),
        ami=ami(true_labels, found_labels),
        ari=float(adjusted_rand_score(true_labels, found_labels)),
    )


_CONTRADICTED = "the labels contradict the edges, so they are not used"


@dataclass(frozen=True, slots=True)
class WindowResult:
    """How one method did on one window; numbers that it lacks are None."""

    method: str
    snapshot: str
    status: Status
    detail: str = ""  # why it has no result, or no agreement though the window has labels
    seconds: float = 0.0  # processor time of finding the communities of the whole window
    measures: Measures | None = None  # None: it has no result
    hidden_edges: float | None = None  # how well 9/10 of the edges predict the others, bits each
    stability: float | None = None  # share of the common nodes that stay since the window before

    def value(self, name: str) -> float | None:
        """A number of this result or of its measures; None where it has none."""
        if self.measures is None:
            return None
        value: float | None = getattr(self if hasattr(self, name) else self.measures, name)
        return value


@dataclass(slots=True)
class _Run:
    """One method, in a process of its own, from window to window."""

    name: str
    learned: MethodRun
    seed: int
    process: MethodProcess
    before: LabelledNodes | None = None
    memory: Any = None

    def result(self, lesson: Lesson) -> WindowResult:
        snapshot, adjacency = lesson.snapshot, lesson.snapshot.adjacency()
        task = Task(
            adjacency,
            snapshot.n_communities,
            self.seed,
            self.learned.learned,
            Moment.of(snapshot),
            self.memory,
        )
        outcome = self._find(task)
        # A window without a result breaks the row: stability is of two windows in a row.
        before, self.before = self.before, None
        if outcome.labels is None:
            return WindowResult(self.name, snapshot.id, outcome.status, outcome.detail)
        # Not of the run below: it sees only nine tenths of the edges of this window.
        self.memory = outcome.memory
        self.before = LabelledNodes(snapshot.nodes, outcome.labels)
        changed = None if before is None else churn(before, self.before)
        hidden_edges = mean_hidden_edge_score(
            comparable(adjacency),
            lambda visible: self._find(replace(task, adjacency=visible)).labels,
            self.seed,
        )
        return WindowResult(
            self.name,
            snapshot.id,
            outcome.status,
            _CONTRADICTED if lesson.known == "contradicted" else "",
            seconds=outcome.seconds,
            measures=measure(adjacency, outcome.labels, lesson.labels),
            hidden_edges=hidden_edges,
            stability=None if changed is None else 1 - changed,
        )

    def _find(self, task: Task) -> MethodRun:
        if self.learned.status != "ok":
            return self.learned
        return self.process.find(self.name, task)
