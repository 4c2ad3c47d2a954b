"""The windows of each graph, in time order, with stable community ids."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import islice
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.node_ids import places
from stream_icd.methods.names.names import Name, NamedWindow, Naming
from stream_icd.methods.tracking.confirmation import STEPS, noted, still_hold
from stream_icd.methods.tracking.packed import PackedWindow, unpacked
from stream_icd.methods.tracking.track import DEFAULTS, track

ResultIdentity = tuple[str, str, str, str]  # graph, snapshot, model and revision of a result

_NAME_BYTES = 400
"""Bytes of a name in memory, measured."""


class SeriesName(NamedTuple):
    """Identifies a series.

    A model that detects windows which already have a result has a series of its own.
    """

    graph: str
    model: str  # of such a series; empty: one model after the other, as a detector changes them
    origin: str  # topic or archive that the results were read from


@dataclass(frozen=True, slots=True)
class _WindowNames:
    """What is kept of a `NamedWindow`: its `names` and its `agreement`."""

    names: Mapping[int, Name] = field(default_factory=dict)
    agreement: Mapping[str, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, window: NamedWindow | None) -> _WindowNames:
        return cls() if window is None else cls(window.names(), window.agreement())

    @property
    def n_bytes(self) -> int:
        """Bytes in memory."""
        return _NAME_BYTES * len(self.names)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SeenWindow:
    """A result with the stable ids of its communities.

    Nodes, ids and events are kept compressed in `packed`, and not in `result`. `held` says for how
    many later windows each event is known to have held; below 0: it was undone by that later
    window. `levels` says what each community is part of, as `Communities.levels`; (0, K) without.
    """

    number: int  # position in its series, from 0; a corrected window keeps its number
    result: Communities
    packed: PackedWindow
    ids: NDArray[np.int64]  # (K,) stable ids of the communities, ascending
    sizes: NDArray[np.int64]  # (K,) number of members of each
    kinds: frozenset[str]  # of the events: only windows with wanted ones are unpacked
    nmi: float | None  # agreement with the known communities, if these are known
    names: _WindowNames
    held: tuple[int, ...]
    levels: NDArray[np.int64]  # (L, K) for each of `ids`, the coarsest level first

    @property
    def n_nodes(self) -> int:
        return int(self.sizes.sum())

    @property
    def n_communities(self) -> int:
        return len(self.ids)

    @property
    def sizes_by_id(self) -> dict[int, int]:
        return dict(zip(self.ids.tolist(), self.sizes.tolist(), strict=True))

    @property
    def tracking(self) -> CommunityEvents:
        """The window as a tracker keeps it, without nodes, communities and events."""
        return self.packed.about

    @property
    def members(self) -> bytes:
        """Its nodes and stable ids, compressed (`unpacked`)."""
        return self.packed.members

    @property
    def events(self) -> tuple[CommunityEvent, ...]:
        return self.packed.events()

    def held_events(self, kinds: Collection[str]) -> Iterator[tuple[CommunityEvent, int]]:
        """Yield events of these kinds, and for how many later windows each held; see `held`."""
        return ((event, self.held[at]) for at, event in self.packed.numbered_events(kinds))

    @property
    def bytes_held(self) -> int:
        """Bytes of memory, approximately."""
        packed_bytes = self.packed.n_bytes + 8 * len(self.held) + self.levels.nbytes
        return packed_bytes + 2 * self.ids.nbytes + self.names.n_bytes

    def found(self) -> Communities:
        """Return the result with its nodes and communities."""
        nodes, communities = unpacked(self.members)
        ids, labels = np.unique(communities, return_inverse=True)
        return replace(
            self.result,
            nodes=nodes,
            labels=labels.astype(np.int32),
            community_ids=ids,
            replaced=np.empty((0, 2), np.int64),
            levels=self.levels if len(self.levels) else None,
        )

    def bands(self, above: int) -> NDArray[np.int64]:
        """Return what each community is part of so many levels above, (K,), or on the coarsest."""
        if not above or not len(self.levels):
            return self.ids
        band: NDArray[np.int64] = self.levels[max(len(self.levels) - above, 0)]
        return band

    def community_of(self, node: str) -> int | None:
        """Stable id of a node's community; None if the node is not in the window."""
        return self.tracked(events=False).community_of(node)

    def tracked(self, *, events: bool = True) -> CommunityEvents:
        """Return the window as a tracker keeps it; without `events`, these are left out."""
        return self.packed.whole() if events else self.packed.without_events()


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
    was_reset: bool = False  # whether the next window is treated as the first

    @property
    def newest(self) -> SeenWindow | None:
        return self.windows[-1] if self.windows else None

    def continues(self, communities: Communities) -> bool:
        """Whether a result follows the newest window, or is of the same model."""
        newest = self.newest
        if newest is None or self.was_reset or newest.result.model == communities.model:
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
        newest = None if self.was_reset else self.newest
        revised = newest is not None and newest.result.identity()[:3] == communities.identity()[:3]
        if published is not None and not published.late:
            tracked = published
        else:
            earlier = [] if self.was_reset else self.between(DEFAULTS.absence + 2)
            recent = [window.tracked() for window in earlier]
            tracked = track(recent, communities, DEFAULTS, self.next_id)
        behind = newest is not None and communities.window.end <= newest.result.window.end
        # Also of a published window: the page draws in time order, whatever order results come in.
        if tracked.late or (behind and not revised):
            self.late += 1
            return None
        if revised:
            self.take_newest()  # only now: a revision that is late replaces nothing
        window = _seen_window(self.numbered, communities, tracked, self.naming, nmi)
        self.was_reset = False
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

    def place_of(self, identity: ResultIdentity) -> int | None:
        """Return the place of a result among `windows`; None if it is not there."""
        newest_first = range(len(self.windows) - 1, -1, -1)  # where it usually is
        return next(
            (place for place in newest_first if self.windows[place].result.identity() == identity),
            None,
        )

    def take_tracked(self, place: int, published: CommunityEvents) -> SeenWindow:
        """Take the identities of a tracker for a window that was tracked here."""
        former = self.windows[place]
        result = former.found() if len(former.levels) else former.result
        window = _seen_window(former.number, result, published, self.naming, former.nmi)
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
            self._replace(place, replace(window, names=_WindowNames()))

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
            self.windows[place] = replace(window, held=noted(window.held, before, steps, hold))

    def _replace(self, place: int, window: SeenWindow) -> None:
        self.version = next(self.versions)
        self.windows[place] = window


_NO_LABELS = np.empty(0, np.int32)


def _seen_window(
    number: int,
    result: Communities,
    tracked: CommunityEvents,
    naming: Naming | None,
    nmi: float | None,
) -> SeenWindow:
    nodes, communities, packed = tracked.nodes, tracked.communities, PackedWindow.of(tracked)
    ids, sizes = np.unique(communities, return_counts=True)
    return SeenWindow(
        number=number,
        result=result.with_communities(_NO_LABELS, nodes=packed.about.nodes),
        packed=packed,
        ids=ids,
        sizes=sizes.astype(np.int64),
        kinds=frozenset(event.kind for event in tracked.events),
        nmi=nmi,
        names=_WindowNames.of(
            None if naming is None else naming.window(result.graph, nodes, communities)
        ),
        held=(0,) * len(tracked.events),
        levels=_levels(result, tracked, ids),
    )


def _levels(
    result: Communities, tracked: CommunityEvents, ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the levels of a result for the communities of a tracker, `SeenWindow.levels`.

    A community of communities has the smallest of the ids that these have here.
    """
    if result.levels is None or not len(result.levels):
        return np.empty((0, len(ids)), np.int64)
    at = places(result.nodes, tracked.nodes)
    label_of = np.zeros(len(ids), np.int64)
    label_of[np.searchsorted(ids, tracked.communities[at[at >= 0]])] = result.labels[at >= 0]
    levels = result.levels[:, label_of]
    for level in levels:
        first, group = np.unique(level, return_index=True, return_inverse=True)[1:]
        level[:] = ids[first][group]  # ids ascend: the first one is the smallest
    return levels


_Result = TypeVar("_Result")
_OfPair = Callable[[SeenWindow, SeenWindow], _Result]


def for_pairs(compute: _OfPair[_Result]) -> _OfPair[_Result]:
    """Return a function that computes each pair once; it keeps no window alive."""
    results = WeakKeyDictionary[SeenWindow, WeakKeyDictionary[SeenWindow, _Result]]()

    @wraps(compute)
    def remembered(window: SeenWindow, other_window: SeenWindow) -> _Result:
        of_window = results.setdefault(window, WeakKeyDictionary())
        if other_window not in of_window:
            of_window[other_window] = compute(window, other_window)
        return of_window[other_window]

    return remembered
