"""One window of a series, as the page knows it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.node_ids import places
from stream_icd.methods.names.names import Naming, WindowNames
from stream_icd.methods.tracking.packed import (
    NO_NODES,
    PackedWindow,
    event_of_row,
    pack,
    unpacked,
    unpacked_events,
)


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
    known: WindowNames
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
        return unpacked_events(self.packed.happened)

    def held_events(self, kinds: Collection[str]) -> Iterator[tuple[CommunityEvent, int]]:
        """Return events of these kinds, and for how many later windows each has held; see `held`.

        Only these are made of their fields: most others say that a community continues.
        """
        rows = zip(json.loads(zlib.decompress(self.packed.happened)), self.held, strict=True)
        return ((event_of_row(row), held) for row, held in rows if row[0] in kinds)

    @property
    def bytes_held(self) -> int:
        """Bytes of memory, approximately."""
        packed_bytes = self.packed.n_bytes + 8 * len(self.held) + self.levels.nbytes
        return packed_bytes + 2 * self.ids.nbytes + self.known.n_bytes

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


_NO_LABELS = np.empty(0, np.int32)


def seen_window(
    number: int,
    result: Communities,
    tracked: CommunityEvents,
    naming: Naming | None,
    nmi: float | None,
) -> SeenWindow:
    """Return the window of a result, with the identities that were tracked in it."""
    nodes, communities = tracked.nodes, tracked.communities
    ids, sizes = np.unique(communities, return_counts=True)
    return SeenWindow(
        number=number,
        result=replace(
            result,
            nodes=NO_NODES,
            labels=_NO_LABELS,
            community_ids=None,
            replaced=None,
            moved=None,
            moved_bits=None,
            probabilities=None,
            second_ids=None,
            second_probabilities=None,
            levels=None,
        ),
        packed=pack(tracked),
        ids=ids,
        sizes=sizes.astype(np.int64),
        kinds=frozenset(event.kind for event in tracked.events),
        nmi=nmi,
        known=WindowNames() if naming is None else naming.of(result.graph, nodes, communities),
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


_Found = TypeVar("_Found")
_OfPair = Callable[[SeenWindow, SeenWindow], _Found]


def for_pairs(compute: _OfPair[_Found]) -> _OfPair[_Found]:
    """Return a function that computes each pair once; it keeps no window alive."""
    known: WeakKeyDictionary[SeenWindow, WeakKeyDictionary[SeenWindow, _Found]] = (
        WeakKeyDictionary()
    )

    @wraps(compute)
    def remembered(window: SeenWindow, other: SeenWindow) -> _Found:
        of_window = known.setdefault(window, WeakKeyDictionary())
        if other not in of_window:
            of_window[other] = compute(window, other)
        return of_window[other]

    return remembered
