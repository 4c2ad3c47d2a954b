"""The windows of one graph by one model, in time order, with stable community ids."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvents
from stream_icd.tracking.settings import TrackSettings
from stream_icd.tracking.track import track
from stream_icd.view.window import SeenWindow, seen_window

DEFAULTS = TrackSettings()

Identity = tuple[str, str, str, str]
"""Graph, snapshot, model and revision of a result."""


class SeriesName(NamedTuple):
    """Identifies a series.

    Attributes:
        graph: name of the graph.
        model: name of the model without its version, so that a new version continues the series;
            with its version if two versions detect the same windows.
        origin: topic or archive that the results were read from.
    """

    graph: str
    model: str
    origin: str


def identified(
    recent: Sequence[CommunityEvents],
    found: Communities,
    published: CommunityEvents | None,
    first_id: int = 0,
) -> CommunityEvents:
    """Return the stable ids and the events of a window.

    This is the only place where the page learns identities. Those that a tracker published are
    used as they are; otherwise the communities are tracked here, from the same kind of state.

    Args:
        recent: the windows before, oldest first.
        published: the message of the events topic for this result, if it was read.
        first_id: first id of the first window.
    """
    if published is not None and not published.late:
        return published
    return track(recent, found, DEFAULTS, first_id)


@dataclass(slots=True)
class Series:
    """The newest windows of a series; older ones were dropped.

    Attributes:
        name: identifies it.
        windows: in time order; their numbers have no holes.
        late: results that were not after the newest window, and no revision of it: not drawn.
        version: changes with every change.
        numbered: the number of the next window.
        next_id: the first stable id not yet used.
        anew: whether the next window is treated as the first.
    """

    name: SeriesName
    windows: deque[SeenWindow] = field(default_factory=deque)
    late: int = 0
    version: int = 0
    numbered: int = 0
    next_id: int = 0
    anew: bool = False

    @property
    def newest(self) -> SeenWindow | None:
        return self.windows[-1] if self.windows else None

    def add(
        self, found: Communities, published: CommunityEvents | None = None, nmi: float | None = None
    ) -> SeenWindow | None:
        """Add a result, or replace the newest window by its revision; None if it is late."""
        self.version += 1
        newest = None if self.anew else self.newest
        revised = newest is not None and newest.result.identity()[:3] == found.identity()[:3]
        recent = () if self.anew else self._recent()
        tracked = identified(recent, found, published, self.next_id)
        behind = newest is not None and found.window.end <= newest.result.window.end
        if tracked.late or (behind and not revised):
            self.late += 1
            return None
        if revised:
            self.windows.pop()
            self.numbered -= 1
        one = seen_window(self.numbered, found, tracked, from_tracker=tracked is published, nmi=nmi)
        self.anew = False
        self.numbered += 1
        self.next_id = one.next_community
        self.windows.append(one)
        return one

    def place_of(self, identity: Identity) -> int | None:
        """Return the place of a result among `windows`; None if it is not there."""
        places = range(len(self.windows) - 1, -1, -1)
        return next((p for p in places if self.windows[p].result.identity() == identity), None)

    def take_tracked(self, place: int, published: CommunityEvents) -> SeenWindow:
        """Take the identities of a tracker for a window that was tracked here."""
        known = self.windows[place]
        one = seen_window(known.number, known.result, published, from_tracker=True, nmi=known.nmi)
        self._replace(place, one)
        if place == len(self.windows) - 1:
            self.next_id = published.next_community
        return one

    def agree(self, place: int, nmi: float | None) -> SeenWindow:
        """Note the agreement of a window with its known communities."""
        one = replace(self.windows[place], nmi=nmi)
        self._replace(place, one)
        return one

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

    def _replace(self, place: int, one: SeenWindow) -> None:
        self.version += 1
        self.windows[place] = one

    def _recent(self) -> tuple[CommunityEvents, ...]:
        """Return what a tracker would remember (`tracking.track.remember`)."""
        return tuple(one.tracked() for one in self.between(DEFAULTS.absence + 2))
