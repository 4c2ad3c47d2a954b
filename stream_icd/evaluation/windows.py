"""The windows of one graph in an archive: those to evaluate, and those before to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from stream_icd.errors import BadSettings
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.retraining.accumulated import Accumulated, accumulated
from stream_icd.retraining.lesson import Lesson, read_lesson
from stream_icd.store.store import Store


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one graph in an archive, in time order; each is read when it is needed.

    Attributes:
        graph: its name.
        past: windows to learn from, just before the others.
        newest: windows to evaluate.
    """

    store: Store
    graph: str
    found: Accumulated
    n_past: int

    def past(self) -> list[LabelledGraph]:
        """Graphs to learn from, with their communities where all are known."""
        windows = islice(self.found.windows, self.n_past)
        return [self._lesson(one).graph(by_labels=True) for one in windows]

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
    names = sorted({one.partition.graph for one in found.windows})
    if not names:
        raise BadSettings("the archive has no windows" + (f" of {graph}" if graph else ""))
    if len(names) > 1:
        raise BadSettings(f"the archive has several graphs: choose one of {', '.join(names)}")
    return Windows(store, names[0], found, max(0, len(found.windows) - n_windows))
