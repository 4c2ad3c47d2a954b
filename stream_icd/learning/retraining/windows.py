"""Archived windows: which there are, what is known of them, and which to learn from."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, groupby, zip_longest
from operator import attrgetter
from typing import Literal

import numpy as np
import structlog
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY
from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadInput, HistoryDamaged
from stream_icd.core.lineage import DataRange
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.core.times import too_far_ahead
from stream_icd.history.archive import Archive, Selection, newest
from stream_icd.history.files import ArchivedDay, ArchivedWindow
from stream_icd.learning.retraining.settings import Sizes
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.quality.partition import description_length
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.limits import Limits

Marks = dict[str, datetime]
"""How far each graph has come: the end of a window. Graphs may be of different times."""

ArchivedLesson = tuple[ArchivedWindow, ArchivedWindow | None]
"""A window, and its labels if there are any."""


@dataclass(frozen=True, slots=True)
class Accumulated:
    """Archived windows and labels, by their descriptions; no rows are read.

    The windows of a graph are in time order, and graphs in turn, so that a graph of the past has
    its place beside one of today.
    """

    windows: tuple[ArchivedWindow, ...]  # the newest ones
    labels: dict[tuple[str, str], ArchivedWindow]  # by graph and snapshot id, where there are some
    strayed: int  # labels in the same days of windows that the archive does not have; not used
    ahead: tuple[tuple[str, str], ...] = ()  # windows too far in the future to be right; not used

    @classmethod
    def look_up(
        cls, archive: Archive, now: datetime, graph: str | None = None, most: int | None = None
    ) -> Accumulated:
        """Look up the newest windows of the archive, and their labels, however late these came.

        Windows far ahead of `now`, the time in UTC, are not used. Raises `HistoryDamaged`.
        """
        windows, ahead = list[ArchivedWindow](), list[tuple[str, str]]()
        for window in _graphs_in_turn(archive, Selection("snapshots", graph)):
            if too_far_ahead(window.window, now):
                ahead.append(window.name)
                continue
            windows.append(window)
            if len(windows) == most:
                break
        if not windows:
            return cls((), {}, 0, tuple(ahead))
        start = min(window.window.start for window in windows)
        since = replace(Selection("labels", graph), start=start)
        of_days = _newest_first(archive, since, archive.partitions(since))
        labels = {label.name: label for label in of_days}
        used = {window.name: labels[window.name] for window in windows if window.name in labels}
        return cls(tuple(windows[::-1]), used, len(labels) - len(used), tuple(ahead))

    def marks(self) -> Marks:
        return _newest_ends(self.windows)

    def until(self, marks: Marks) -> Accumulated:
        """What there was when the graphs had come so far; labels may be newer."""
        before = tuple(window for window in self.windows if not _is_after(window, marks))
        return replace(self, windows=before)

    def after(self, marks: Marks) -> list[ArchivedWindow]:
        """The windows that begin after the marks of their graph, or that it has none."""
        return [window for window in self.windows if _is_after(window, marks)]

    def before(self, windows: Sequence[ArchivedWindow], most: int) -> list[ArchivedWindow]:
        """The windows of each graph right before the first of these, at most so many."""
        # Reversed: of each graph, the earliest one counts.
        first = {window.partition.graph: window.order for window in reversed(windows)}
        before = list[ArchivedWindow]()
        for graph, order in first.items():
            of_graph = (window for window in self.windows if window.partition.graph == graph)
            before += [window for window in of_graph if window.order < order][-most:]
        return before

    def lessons(self, windows: Iterable[ArchivedWindow]) -> tuple[ArchivedLesson, ...]:
        return tuple((window, self.labels.get(window.name)) for window in windows)

    def choose(
        self,
        sizes: Sizes,
        seed: int,
        *,
        unseen: Sequence[ArchivedWindow],
        since: Sequence[ArchivedWindow] | None = None,
    ) -> ChosenWindows | str:
        """Choose windows: the newest prove, those before them teach, with a sample of older ones.

        If there are too few, the text says how many there are, and how many are needed.

        Windows that overlap those that prove share edges with them, and do not teach. The choice
        depends on windows and seed only, never on when or how often it is made.

        Args:
            unseen: those that the champion did not learn from; only these can prove anything.
            since: those since the law changed, the only ones that are used then; None if it did
                not change.
        """
        prove, after = sizes.prove, "" if since is None else " after the change"
        if len(unseen) < prove:
            return f"{len(unseen)} of {prove} windows that the champion did not learn from"
        usable = self.windows if since is None else since
        if len(usable) < prove + sizes.least:
            return f"{len(usable)} of {prove + sizes.least} windows{after}"
        can_prove = set(unseen)
        proving = [window for window in usable if window in can_prove][-prove:]
        if len(proving) < prove:
            return f"{len(proving)} of {prove} windows{after} that the champion did not learn from"
        # Reversed: of each graph, the earliest one counts.
        first = {window.partition.graph: window.window.start for window in reversed(proving)}
        rest = [
            window
            for window in usable
            if window not in proving
            and (end := window.window.end) <= first.get(window.partition.graph, end)
        ]
        if len(rest) < sizes.least:
            return f"{len(rest)} of {sizes.least} windows{after} that end before those that prove"

        def rank(window: ArchivedWindow) -> bytes:
            # As at random, but a longer stream keeps most of the earlier sample.
            name = f"{window.partition.graph} {window.identity}"
            return hashlib.sha256(f"{seed} {name}".encode()).digest()

        earlier = rest[: -sizes.newest] if since is None else []
        drawn = heapq.nsmallest(sizes.older, earlier, rank)
        older = [window for window in earlier if window in drawn]
        return ChosenWindows([*older, *rest[-sizes.newest :]], proving)


@dataclass(frozen=True, slots=True)
class ChosenWindows:
    """The chosen windows; those of a graph in time order."""

    learn: list[ArchivedWindow]
    prove: list[ArchivedWindow]

    @property
    def learn_range(self) -> DataRange:
        return _data_range(self.learn)

    @property
    def prove_range(self) -> DataRange:
        return _data_range(self.prove)


def _data_range(windows: Sequence[ArchivedWindow]) -> DataRange:
    return DataRange(
        graphs=tuple(sorted({window.partition.graph for window in windows})),
        start=min(window.window.start for window in windows),
        end=max(window.window.end for window in windows),
        windows=len(windows),
        ends=_newest_ends(windows),
    )


def _newest_ends(windows: Iterable[ArchivedWindow]) -> Marks:
    ends: Marks = {}
    for window in windows:
        name, end = window.partition.graph, window.window.end
        ends[name] = max(end, ends.get(name, end))
    return ends


def _is_after(window: ArchivedWindow, marks: Marks) -> bool:
    mark = marks.get(window.partition.graph)
    return mark is None or window.window.start >= mark


def _graphs_in_turn(archive: Archive, selection: Selection) -> Iterator[ArchivedWindow]:
    """Yield the newest window of each graph, then the second newest of each, and so on."""
    graph_of = attrgetter("graph")
    by_graph = groupby(sorted(archive.partitions(selection), key=graph_of), key=graph_of)
    graphs = [_newest_first(archive, selection, list(of_graph)) for _, of_graph in by_graph]
    for turn in zip_longest(*graphs):
        yield from sorted(filter(None, turn), key=attrgetter("order"), reverse=True)


def _newest_first(
    archive: Archive, selection: Selection, days: Iterable[ArchivedDay]
) -> Iterator[ArchivedWindow]:
    """Yield windows from the newest to the oldest, and read only the days that are asked for."""
    for _, of_day in groupby(sorted(days, reverse=True), key=attrgetter("day")):
        archived = chain.from_iterable(map(archive.read_partition, of_day))
        chosen = sorted(filter(selection.holds, archived), key=attrgetter("order"))
        yield from reversed(newest(chosen))


KnownLabels = Literal["none", "some nodes", "all nodes", "contradicted"]
"""`contradicted` labels save no bits in describing a graph that has communities, such as one
community for all nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A window to learn from, or to compare models on."""

    snapshot: Snapshot
    labels: NDArray[np.int32] | None = None  # (n_nodes,), or NOBODY; None: none can be used
    known: KnownLabels = "none"

    @classmethod
    def of(cls, snapshot: Snapshot, labels: Labels) -> Lesson:
        """Join a snapshot with its labels; labels of nodes that it does not have are not used."""
        at = places(snapshot.nodes, labels.nodes)
        has_label = at >= 0
        if not has_label.any():
            return cls(snapshot)
        of_nodes = np.full(snapshot.n_nodes, NOBODY, np.int32)
        of_nodes[has_label] = np.unique(labels.labels[at[has_label]], return_inverse=True)[1]
        if not has_label.all():
            return cls(snapshot, of_nodes, "some nodes")
        if _contradicted(snapshot, of_nodes):
            return cls(snapshot, None, "contradicted")
        return cls(snapshot, of_nodes, "all nodes")

    @classmethod
    def read(
        cls, archive: Archive, window: ArchivedWindow, labels: ArchivedWindow | None
    ) -> Lesson:
        """Read a window, and its labels if there are any; raises `HistoryDamaged`, `BadInput`."""
        limits = Limits()
        snapshot = archive.read_snapshot(window, limits)
        if labels is None:
            return cls(snapshot)
        message = archive.read_message(labels)
        return cls.of(snapshot, decode_labels(message.key, message.value, message.headers, limits))

    def graph(self, *, by_labels: bool) -> LabelledGraph:
        """The graph for training, with labels if they are wanted and complete."""
        snapshot, complete = self.snapshot, by_labels and self.known == "all nodes"
        labels = self.labels if complete else None
        return LabelledGraph(snapshot.adjacency(), labels, Moment.of(snapshot))


def read_lessons(place: str, lessons: Sequence[ArchivedLesson]) -> Iterator[Lesson]:
    """Read windows of the archive at a path or URI, one after the other: not all are in memory.

    Unreadable ones are left out, and logged; labels that cannot be read do not spoil their window.
    """
    archive, log = Archive(open_store(place)), structlog.get_logger()
    for window, labels in lessons:
        # Labels come first: if they cannot be read, the window still teaches without any.
        for of_window in dict.fromkeys((labels, None)):
            try:
                lesson = Lesson.read(archive, window, of_window)
            except (BadInput, HistoryDamaged) as error:
                graph, snapshot = window.name
                event = "a window cannot be read" if of_window is None else "labels cannot be read"
                log.warning(event, graph=graph, snapshot=snapshot, error=str(error))
            else:
                yield lesson
                break


def _contradicted(snapshot: Snapshot, labels: NDArray[np.int32]) -> bool:
    adjacency = snapshot.adjacency()
    if description_length(adjacency, labels) < 0:
        return False
    return description_length(adjacency, find_communities(adjacency, BpParameters())) < 0
