"""The windows of each graph, in time order, with stable community ids."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import NamedTuple

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.data.window import SeenWindow, seen_window
from stream_icd.methods.names.names import Naming, WindowNames
from stream_icd.methods.tracking.confirmation import still_hold
from stream_icd.methods.tracking.followed import STEPS, noted
from stream_icd.methods.tracking.track import DEFAULTS, track

MOST_ENDS = 5000
"""How many series that are no longer kept are remembered, so that numbers and ids go on; and how
many graphs whose tracking was reset."""

Identity = tuple[str, str, str, str]
"""Graph, snapshot, model and revision of a result."""


class SeriesName(NamedTuple):
    """Identifies a series.

    A model that detects windows which already have a result has a series of its own.
    """

    graph: str
    model: str  # of such a series; empty: one model after the other, as a detector changes them
    origin: str  # topic or archive that the results were read from


@dataclass(slots=True)
class Series:
    """The newest windows of a series, in time order; older ones were dropped.

    `version` changes with every change; no two series have the same, nor one made anew.
    """

    name: SeriesName
    versions: Iterator[int]  # numbers that no series has had
    naming: Naming | None
    numbered: int  # the number of the next window
    next_id: int  # the first stable id not yet used
    windows: deque[SeenWindow] = field(default_factory=deque)  # their numbers have no holes
    late: int = 0  # results not drawn: not after the newest window, and no revision of it
    version: int = 0
    anew: bool = False  # whether the next window is treated as the first

    @property
    def newest(self) -> SeenWindow | None:
        return self.windows[-1] if self.windows else None

    def continues(self, communities: Communities) -> bool:
        """Whether a result follows the newest window, or is of the same model."""
        newest = self.newest
        if newest is None or self.anew or newest.result.model == communities.model:
            return True
        return communities.window.end > newest.result.window.end

    def was_by(self, communities: Communities) -> bool:
        """Whether another model took over with this very window from the model of a result."""
        if len(self.windows) < 2:
            return False
        before, newest = self.windows[-2].result, self.windows[-1].result
        return before.model == communities.model and newest.window.end == communities.window.end

    def has_window_of(self, communities: Communities) -> bool:
        """Whether there is a result of the same snapshot by the same model."""
        name = communities.identity()[:3]
        return any(window.result.identity()[:3] == name for window in reversed(self.windows))

    def add(
        self, communities: Communities, published: CommunityEvents | None, nmi: float | None
    ) -> SeenWindow | None:
        """Add a result, or replace the newest window by its revision; None if it is late.

        Identities that a tracker published are used as they are; otherwise the communities are
        tracked here, from what a tracker would remember.
        """
        self.version = next(self.versions)
        newest = None if self.anew else self.newest
        revised = newest is not None and newest.result.identity()[:3] == communities.identity()[:3]
        if published is not None and not published.late:
            tracked = published
        else:
            seen = [] if self.anew else self.between(DEFAULTS.absence + 2)
            recent = [window.tracked() for window in seen]
            tracked = track(recent, communities, DEFAULTS, self.next_id)
        behind = newest is not None and communities.window.end <= newest.result.window.end
        if tracked.late or (behind and not revised):
            self.late += 1
            return None
        if revised:
            self.take_newest()
        window = seen_window(self.numbered, communities, tracked, self.naming, nmi)
        self.anew = False
        self.numbered += 1
        self.next_id = tracked.next_community
        self.windows.append(window)
        self._look_back()
        return window

    def take_newest(self) -> SeenWindow:
        """Take the newest window out; the next one gets its number."""
        self.version = next(self.versions)
        self.numbered -= 1
        return self.windows.pop()

    def take_oldest(self) -> SeenWindow:
        self.version = next(self.versions)
        return self.windows.popleft()

    def place_of(self, identity: Identity) -> int | None:
        """Return the place of a result among `windows`; None if it is not there."""
        places = range(len(self.windows) - 1, -1, -1)
        return next((p for p in places if self.windows[p].result.identity() == identity), None)

    def take_tracked(self, place: int, published: CommunityEvents) -> SeenWindow:
        """Take the identities of a tracker for a window that was tracked here."""
        known = self.windows[place]
        result = known.found() if len(known.levels) else known.result
        window = seen_window(known.number, result, published, self.naming, known.nmi)
        self._replace(place, window)
        if place == len(self.windows) - 1:
            self.next_id = published.next_community
        return window

    def agree(self, place: int, nmi: float | None) -> SeenWindow:
        """Note the agreement of a window with its known communities."""
        window = replace(self.windows[place], nmi=nmi)
        self._replace(place, window)
        return window

    def take_names_back(self) -> None:
        """Forget the names of all windows."""
        for place, window in enumerate(self.windows):
            self._replace(place, replace(window, known=WindowNames()))

    def between(self, last: int, until: int | None = None) -> list[SeenWindow]:
        """Return at most `last` windows, the newest of them with number `until` or lower."""
        if not self.windows:
            return []
        end = len(self.windows) if until is None else until - self.windows[0].number + 1
        end = min(max(end, 0), len(self.windows))
        return list(islice(self.windows, max(0, end - last), end))

    def at(self, number: int | None) -> SeenWindow | None:
        """Return the window with that number, or the newest one; None if it is not kept."""
        chosen = self.between(1, number)
        return chosen[0] if chosen and number in (None, chosen[0].number) else None

    def _look_back(self) -> None:
        """Note which events of the windows before still hold in the newest one (`STEPS`)."""
        newest, last = self.windows[-1].tracked(events=False), len(self.windows) - 1
        for before, steps in zip((0, *STEPS), STEPS, strict=False):
            place = last - steps
            if place < 0:
                break
            window = self.windows[place]
            if window.kinds <= {"continued"} or {before, steps, -steps}.isdisjoint(window.held):
                continue
            events = window.events
            former = self.windows[place - 1].tracked(events=False) if place else None
            hold = still_hold(events, former, window.tracked(events=False), newest)
            held = noted(window.held, before, steps, hold)
            self.windows[place] = replace(window, held=held)

    def _replace(self, place: int, window: SeenWindow) -> None:
        self.version = next(self.versions)
        self.windows[place] = window


class SeriesIndex:
    """All series that have windows; of others it knows where their numbers and ids ended.

    Its lock is held for moments only, unlike that of the windows.
    """

    def __init__(self, naming: Naming | None) -> None:
        self._naming = naming
        self._lock = threading.Lock()
        self._series: dict[SeriesName, Series] = {}
        self._of_graph: dict[str, dict[SeriesName, Series]] = {}
        self._ends = KeptValues[SeriesName, tuple[int, int]](MOST_ENDS)
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
