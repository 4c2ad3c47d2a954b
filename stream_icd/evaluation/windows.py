"""The windows of one graph to evaluate, and what methods learn from those before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice

from stream_icd.bp.parameters import BpParameters
from stream_icd.errors import BadSettings, OverBudget, Overloaded
from stream_icd.evaluation.limits import MethodProcess, MethodRun
from stream_icd.evaluation.method import OWN, methods_in
from stream_icd.execution.budget import Allowance
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.history.files import ArchivedWindow
from stream_icd.retraining.jobs import run_job
from stream_icd.retraining.windows import Accumulated, Lesson, accumulated, read_lesson
from stream_icd.store.store import Store
from stream_icd.training.yardstick import Comparison, compared_with_default


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one graph in an archive, in time order; each is read when it is needed.

    The first `n_past` come before those to evaluate.
    """

    store: Store
    graph: str
    found: Accumulated
    n_past: int

    def past(self) -> list[LabelledGraph]:
        """Graphs to learn from, with their communities where all are known."""
        windows = islice(self.found.windows, self.n_past)
        return [self._lesson(window).graph(by_labels=True) for window in windows]

    def newest(self) -> Iterator[Lesson]:
        """Windows to evaluate."""
        return map(self._lesson, islice(self.found.windows, self.n_past, None))

    def __len__(self) -> int:
        return len(self.found.windows) - self.n_past

    def _lesson(self, window: ArchivedWindow) -> Lesson:
        return read_lesson(self.store, window, self.found.labels_of(window))


def open_windows(
    store: Store, graph: str | None, n_windows: int, n_past: int, now: datetime
) -> Windows:
    """Look up the newest windows of a graph, and up to n_past before them to learn from.

    Windows far ahead of `now`, the time, are not used.

    Raises:
        BadSettings: there is no window, or several graphs and none was named.
    """
    found = accumulated(store, now, graph, n_windows + n_past)
    names = sorted({window.partition.graph for window in found.windows})
    if not names:
        raise BadSettings("the archive has no windows" + (f" of {graph}" if graph else ""))
    if len(names) > 1:
        raise BadSettings(f"the archive has several graphs: choose one of {', '.join(names)}")
    return Windows(store, names[0], found, max(0, len(found.windows) - n_windows))


@dataclass(frozen=True, slots=True)
class Learned:
    """What became of each method, which of them learned something, and from how many windows."""

    of_method: dict[str, MethodRun]
    names: tuple[str, ...]
    n_windows: int


def learners(names: Sequence[str], packages: Sequence[str] = (OWN,)) -> list[str]:
    """The methods of these that can learn."""
    methods = methods_in(*packages)
    return [name for name in names if methods[name].learn is not None]


def learn(
    windows: Windows,
    names: Sequence[str],
    limits: Allowance,
    seed: int = 0,
    packages: Sequence[str] = (OWN,),
) -> Learned:
    """Let the methods learn from the past windows; those that learn alike do it once."""
    methods, process = methods_in(*packages), MethodProcess(packages, limits)
    past, done = windows.past(), dict[object, MethodRun]()
    try:
        for name in learners(names, packages) if past else ():
            if methods[name].learn not in done:
                done[methods[name].learn] = process.learn(name, past, seed)
    finally:
        process.end()
    of_method = {name: done.get(methods[name].learn, MethodRun("ok")) for name in names}
    known = tuple(name for name in names if of_method[name].learned is not None)
    return Learned(of_method, known, len(past) if known else 0)


def worth(windows: Windows, learned: Learned, limits: Allowance, seed: int = 0) -> list[Comparison]:
    """Compare what bp learned with the model `default`, with memory, on the evaluated windows.

    Empty if bp learned nothing, or if the comparison exceeds the limits.
    """
    found = (learned.of_method[name].learned for name in learned.names)
    bp = next((parameters for parameters in found if isinstance(parameters, BpParameters)), None)
    if bp is None:
        return []
    try:
        compared: list[Comparison] = run_job(partial(_compared, windows, bp, seed), limits)
    except (OverBudget, Overloaded):
        return []
    return compared


def _compared(windows: Windows, bp: BpParameters, seed: int) -> list[Comparison]:
    newest = (lesson.graph(by_labels=True) for lesson in windows.newest())
    return compared_with_default(bp, windows.past(), newest, seed, memory=True)
