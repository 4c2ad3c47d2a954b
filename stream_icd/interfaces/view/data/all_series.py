"""Everything that the page knows: all series, within a budget; written by readers, read by tabs."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, islice

from stream_icd.core.communities import Communities, Labels
from stream_icd.core.events import CommunityEvents
from stream_icd.core.printable import shortened
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.data.series import ResultIdentity, SeenWindow, Series, SeriesName
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.identities import NodePartition
from stream_icd.methods.tracking.packed import packed
from stream_icd.streaming.dead_letters.letters import DeadLetter
from stream_icd.wire.announcements import Announcement

_ReadEvents = Callable[[], CommunityEvents | None]
"""Decodes a message of the events topic; None if it cannot be read."""

_MOST_ENDS = 5000
"""How many series that are no longer kept are remembered, so that numbers and ids go on; and how
many graphs whose tracking was reset."""

_MOST_DEAD_LETTERS = 1000
_MOST_ANNOUNCEMENTS = 500


@dataclass(frozen=True, slots=True)
class PageBudget:
    """What is kept in memory, of all series: the oldest windows are dropped first."""

    windows: int = 6000
    bytes: int = 512 * 2**20  # approximately
    waiting_bytes: int = 64 * 2**20  # of known communities without a result, and of such events


@dataclass(frozen=True, slots=True)
class News:
    """A window is new or has changed."""

    name: SeriesName
    window: SeenWindow


Publish = Callable[[News], None]


@dataclass(frozen=True, slots=True)
class _SeenDeadLetter:
    """A snapshot that could not be processed; when (UTC), where and why."""

    graph: str
    at: datetime
    stage: str
    exception: str
    message: str
    place: str  # position of the record, such as `icd.snapshots.v1[0]@7`


@dataclass(frozen=True, slots=True)
class _SeriesSummary:
    """A series in short."""

    name: SeriesName
    models: tuple[str, ...]  # of its windows, in the order of their first window
    kept: int  # windows in memory
    dropped: int  # older windows, which no longer are
    late: int  # results that were not drawn
    newest: SeenWindow


class AllSeries:
    """All series and dead letters. Every method may be called from any thread."""

    def __init__(self, budget: PageBudget | None = None, naming: Naming | None = None) -> None:
        self._budget = budget or PageBudget()
        self.naming = naming
        self._lock = threading.Lock()
        self._names_are_gone = False
        self.index = _SeriesIndex(naming)  # never waits for a window that is being tracked
        self._arrived: deque[SeriesName] = deque()  # the series of each window kept, oldest first
        self.bytes_held = 0
        self._early_events = KeptValues[ResultIdentity, _ReadEvents](self._budget.waiting_bytes)
        # Graphs whose tracking was reset, and the first result that was tracked since, if any.
        self._reset = KeptValues[str, tuple[ResultIdentity, ...]](_MOST_ENDS)
        self._truth = KeptValues[tuple[str, str], bytes](self._budget.waiting_bytes)
        self._dead: deque[_SeenDeadLetter] = deque(maxlen=_MOST_DEAD_LETTERS)
        self._n_dead = 0
        self._announced = KeptValues[tuple[str, str], Announcement](_MOST_ANNOUNCEMENTS)

    def summaries(self, most: int = 1000, graph: str = "") -> list[_SeriesSummary]:
        """Return at most so many series in short, in the order in which they began.

        Those of this graph come after them, if they are not among them.
        """
        with self._lock:
            first = {series.name: series for series in self.index.first(most)}
            of_graph = {series.name: series for series in self.index.of_graph(graph)}
            return [
                _SeriesSummary(
                    series.name,
                    tuple(dict.fromkeys(window.result.model for window in series.windows)),
                    kept=len(series.windows),
                    dropped=series.windows[0].number,
                    late=series.late,
                    newest=series.windows[-1],
                )
                for series in (first | of_graph).values()
                if series.windows
            ]

    def windows(self, name: SeriesName, last: int, until: int | None = None) -> list[SeenWindow]:
        """Return the newest windows of a series; see `Series.between`."""
        with self._lock:
            series = self.index.get(name)
            return [] if series is None else series.between(last, until)

    def window(self, name: SeriesName, number: int | None = None) -> SeenWindow | None:
        """Return a window of a series, by default the newest; None if it is not kept."""
        with self._lock:
            series = self.index.get(name)
            return None if series is None else series.at(number)

    def dead_letters(self) -> tuple[int, list[_SeenDeadLetter]]:
        """Return how many dead letters were seen, and the newest of them, oldest first."""
        with self._lock:
            return self._n_dead, list(self._dead)

    def add(self, communities: Communities, origin: str) -> News | None:
        """Add a result; return None if it is late."""
        with self._lock:
            # A page that reads later has all events, and with them the reset, before any result:
            # the series begins anew at the result that the tracker treated as the first.
            if self._reset.get(communities.graph) == (communities.identity(),):
                self._begin_anew(communities.graph)
            decode = self._early_events.pop(communities.identity())
            published = None if decode is None else decode()
            return self._add(self._series_of(communities, origin), communities, published)

    def add_events(
        self, identity: ResultIdentity, decode: _ReadEvents, n_bytes: int = 0
    ) -> News | None:
        """Take a message of the events topic, for a result that is here or still to come.

        Until then, `decode` keeps `n_bytes` in memory.
        """
        graph = identity[0]
        with self._lock:
            if self._reset.get(graph) == ():  # the first window that a tracker tells of since then
                self._reset.put(graph, (identity,))
            for series in self.index.of_graph(graph):
                if (place := series.place_of(identity)) is not None:
                    tracked = decode()
                    if tracked is None or tracked.late:
                        return None
                    self.bytes_held -= series.windows[place].bytes_held
                    window = series.take_tracked(place, tracked)
                    self.bytes_held += window.bytes_held
                    return News(series.name, window)
            # Kept encoded: decoded events of a result that never comes would take megabytes.
            size = n_bytes + sum(map(sys.getsizeof, identity))
            self._early_events.put(identity, decode, size)
            return None

    def know(self, truth: Labels) -> list[News]:
        """Take the known communities of a snapshot; return the windows whose agreement is new."""
        with self._lock:
            name = truth.graph, truth.snapshot_id
            nodes_and_labels = packed(truth.nodes, truth.labels.astype("int64"))
            size = len(nodes_and_labels) + sum(map(sys.getsizeof, name))
            self._truth.put(name, nodes_and_labels, size)  # for results that are still to come
            partition = NodePartition.by_first_node(truth.nodes, truth.labels)
            return [
                News(
                    series.name,
                    series.agree(
                        place, NodePartition.unpacked(window.members).agreement(partition)
                    ),
                )
                for series in self.index.of_graph(truth.graph)
                for place, window in enumerate(series.windows)
                if window.result.snapshot_id == truth.snapshot_id
            ]

    def begin_anew(self, graph: str) -> None:
        """Treat the next window of a graph as its first: an operator reset its tracking.

        So is the first that a tracker tells of from now on, which may come long before its result.
        """
        with self._lock:
            self._reset.put(graph, ())
            self._begin_anew(graph)

    def _begin_anew(self, graph: str) -> None:
        for series in self.index.of_graph(graph):
            series.was_reset = True

    def announcements(self) -> list[Announcement]:
        """Return the newest decisions about models, oldest first."""
        return self._announced.values()

    def announce(self, announcement: Announcement) -> None:
        """Note a decision about models, once."""
        brief = replace(
            announcement,
            registry=shortened(announcement.registry, 500),
            reason=shortened(announcement.reason, 500),
            by=shortened(announcement.by),
            version=announcement.version and shortened(announcement.version, 500),
            champion=None,
            gate=None,
        )
        with self._lock:
            if (brief.registry, brief.id) not in self._announced:
                self._announced.put((brief.registry, brief.id), brief)

    def bury(self, letter: DeadLetter) -> None:
        """Note a dead letter, once."""
        brief = _SeenDeadLetter(
            graph=shortened(letter.key or b""),
            at=letter.at,
            stage=shortened(letter.stage),
            exception=shortened(letter.exception),
            message=shortened(letter.message, 500),
            place=letter.place,
        )
        with self._lock:
            # After a fault, a topic may be read again from its beginning.
            if all(earlier.place != letter.place for earlier in self._dead):
                self._n_dead += 1
                self._dead.append(brief)

    def _series_of(self, communities: Communities, origin: str) -> Series:
        """Return the series of a result: one for all models, unless two are at work at once."""
        across = SeriesName(communities.graph, "", origin)
        own = across._replace(model=communities.model)
        of_graph = self.index.of_graph(communities.graph)
        of_origin = [series for series in of_graph if series.name.origin == origin]
        # A series that is at this model comes before one that this model could only continue.
        for series in of_origin:
            newest = series.newest
            if communities.model == series.name.model or (
                newest and newest.result.model == communities.model
            ):
                return series
        family = communities.model.rpartition("@")[0]
        for series in of_origin:
            same_family = family and series.name.model.rpartition("@")[0] == family
            if same_family and series.continues(communities):
                return series
        main = self.index.opened(across)
        if main.continues(communities) or main.has_window_of(communities):
            return main
        if main.was_by(communities):
            self._move_newest(main, own)
            return self.index.opened(across)
        return self.index.opened(own)

    def _move_newest(self, main: Series, own: SeriesName) -> None:
        """Move the newest window to a series of its model: the one before is still at work."""
        moved = main.take_newest()
        self.bytes_held -= moved.bytes_held
        self._arrived.remove(main.name)  # any of its entries: their order among series is enough
        result = moved.found()
        self._add(self.index.opened(own._replace(model=result.model)), result, None)

    def _add(
        self, series: Series, communities: Communities, published: CommunityEvents | None
    ) -> News | None:
        replaced, n_before = series.newest, len(series.windows)
        window = series.add(communities, published, self._agreement(communities))
        if window is None:
            return None
        self.bytes_held += window.bytes_held
        if len(series.windows) > n_before:
            self._arrived.append(series.name)
        elif replaced is not None:
            self.bytes_held -= replaced.bytes_held
        if self.naming and self.naming.is_of_none and not self._names_are_gone:
            self._take_names_back()
        self._keep_within_budget()
        return News(series.name, window)

    def _take_names_back(self) -> None:
        """Take all names back: a table turned out to belong to one of several graphs, unknown."""
        self._names_are_gone = True
        for series in self.index.first(sys.maxsize):
            series.take_names_back()

    def _agreement(self, communities: Communities) -> float | None:
        truth = self._truth.get((communities.graph, communities.snapshot_id))
        if truth is None:
            return None
        partition = NodePartition.by_first_node(communities.nodes, communities.labels)
        return partition.agreement(NodePartition.unpacked(truth))

    def _keep_within_budget(self) -> None:
        # The window that has just come stays, even if it alone exceeds the budget.
        while len(self._arrived) > 1 and (
            len(self._arrived) > self._budget.windows or self.bytes_held > self._budget.bytes
        ):
            series = self.index.opened(self._arrived.popleft())
            self.bytes_held -= series.take_oldest().bytes_held
            if not series.windows:
                self.index.forget(series)


class _SeriesIndex:
    """All series that have windows; of others it knows where their numbers and ids ended.

    Its lock is held for moments only, unlike that of the windows.
    """

    def __init__(self, naming: Naming | None) -> None:
        self._naming = naming
        self._lock = threading.Lock()
        self._series: dict[SeriesName, Series] = {}
        self._of_graph: dict[str, dict[SeriesName, Series]] = {}
        self._ends = KeptValues[SeriesName, tuple[int, int]](_MOST_ENDS)
        self._versions = count(1)

    def __len__(self) -> int:
        return len(self._series)

    def get(self, name: SeriesName) -> Series | None:
        return self._series.get(name)

    def version_of(self, name: SeriesName) -> int:
        """Return a number that changes with the series; -1 if there is none."""
        series = self._series.get(name)
        return -1 if series is None else series.version

    def first(self, most: int) -> list[Series]:
        """Return at most so many series, in the order in which they began."""
        with self._lock:
            return list(islice(self._series.values(), most))

    def of_graph(self, graph: str) -> list[Series]:
        """Return all series of a graph, in the order in which they began."""
        with self._lock:
            return list(self._of_graph.get(graph, {}).values())

    def opened(self, name: SeriesName) -> Series:
        """Return the series of that name; a new one, which continues one that was forgotten."""
        with self._lock:
            if name not in self._series:
                ended = self._ends.pop(name) or (0, 0)
                series = Series(name, self._versions, self._naming, *ended)
                self._series[name] = self._of_graph.setdefault(name.graph, {})[name] = series
            return self._series[name]

    def forget(self, series: Series) -> None:
        """Forget a series; remember where it ended."""
        name = series.name
        with self._lock:
            del self._series[name]
            del self._of_graph[name.graph][name]
            if not self._of_graph[name.graph]:
                del self._of_graph[name.graph]
            self._ends.put(name, (series.numbered, series.next_id))

    def find(self, graph: str, model: str, origin: str) -> SeriesName | None:
        """Return the name of the first series that fits; None if none does.

        An empty name fits all. Without a graph, only the first series of all is looked at.
        """
        exact = SeriesName(graph, model, origin)
        if exact in self._series:
            return exact
        candidates = self.of_graph(graph) if graph else self.first(1)
        for name in (candidate.name for candidate in candidates):
            if model in ("", name.model) and origin in ("", name.origin):
                return name
        return None
