"""One window of a series, as the page knows it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, replace
from functools import wraps
from operator import attrgetter
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.methods.names.names import NAME_BYTES, NOTHING, Naming, WindowNames
from stream_icd.methods.tracking.partition import Partition, by_name
from stream_icd.wire.arrow_stream import READING, write_table


def packed(nodes: pa.Array, ids: NDArray[np.int64]) -> bytes:
    """Return nodes and the stable ids of their communities, compressed; `unpacked` reads it."""
    # The narrowest type that holds the ids compresses three times as well.
    narrow = ids.astype(np.min_scalar_type(int(ids.max(initial=0))))
    return write_table(pa.table({"node": nodes, "id": pa.array(narrow)}))


def unpacked(members: bytes) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return what `packed` was given."""
    table = pa.ipc.open_stream(members, options=READING).read_all().combine_chunks()
    nodes = cast(pa.Array, table["node"].combine_chunks())
    return nodes, table["id"].to_numpy().astype(np.int64)


def partition(members: bytes) -> Partition:
    """Return the communities of a window, named by their stable ids."""
    return by_name(*unpacked(members))


row_of = attrgetter(*(field.name for field in fields(CommunityEvent)))
"""The fields of an event; `astuple` copies each of them, which takes fifty times as long."""


def packed_events(events: tuple[CommunityEvent, ...]) -> bytes:
    """Return the events, compressed; `unpacked_events` reads them."""
    rows = list(map(row_of, events))
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)


def unpacked_events(events: bytes) -> tuple[CommunityEvent, ...]:
    """Return what `packed_events` was given."""
    return tuple(_event(row) for row in json.loads(zlib.decompress(events)))


def _event(row: list[Any]) -> CommunityEvent:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return CommunityEvent(*values)


OVERHEAD = 2000
"""Bytes of a window's Python objects, measured."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SeenWindow:
    """A result with the stable ids of its communities.

    Nodes, ids and events are kept compressed in `members` and `happened`, and not in `result` and
    `tracking`. `held` says for how many later windows each event has held, at most `CONFIRMED`;
    below 0: it was undone in that later window.
    """

    number: int  # position in its series, from 0; a corrected window keeps its number
    result: Communities
    tracking: CommunityEvents
    ids: NDArray[np.int64]  # (K,) stable ids of the communities, ascending
    sizes: NDArray[np.int64]  # (K,) number of members of each
    members: bytes  # nodes and stable ids (`unpacked`)
    happened: bytes  # events (`unpacked_events`)
    kinds: frozenset[str]  # of the events: only windows with wanted ones are unpacked
    nmi: float | None  # agreement with the known communities, if these are known
    known: WindowNames
    held: tuple[int, ...]

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
    def events(self) -> tuple[CommunityEvent, ...]:
        return unpacked_events(self.happened)

    def held_events(self, kinds: Collection[str]) -> Iterator[tuple[CommunityEvent, int]]:
        """Return events of these kinds, and for how many later windows each has held; see `held`.

        Only these are made of their fields: most others say that a community continues.
        """
        rows = zip(json.loads(zlib.decompress(self.happened)), self.held, strict=True)
        return ((_event(row), held) for row, held in rows if row[0] in kinds)

    @property
    def bytes_held(self) -> int:
        """Bytes of memory, approximately."""
        packed_bytes = len(self.members) + len(self.happened) + 8 * len(self.held)
        return OVERHEAD + packed_bytes + 2 * self.ids.nbytes + NAME_BYTES * len(self.known.names)

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
        )

    def community_of(self, node: str) -> int | None:
        """Stable id of a node's community; None if the node is not in the window."""
        return self.tracked(events=False).community_of(node)

    def tracked(self, *, events: bool = True) -> CommunityEvents:
        """Return the window as a tracker keeps it; without `events`, these are left out."""
        nodes, communities = unpacked(self.members)
        there = self.events if events else ()
        return replace(self.tracking, nodes=nodes, communities=communities, events=there)


NO_NODES = pa.array([], pa.int64())
NO_LABELS, NO_IDS = np.empty(0, np.int32), np.empty(0, np.int64)


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
        result=replace(result, nodes=NO_NODES, labels=NO_LABELS, community_ids=None, replaced=None),
        tracking=replace(tracked, nodes=NO_NODES, communities=NO_IDS, events=()),
        ids=ids,
        sizes=sizes.astype(np.int64),
        members=packed(nodes, communities),
        happened=packed_events(tracked.events),
        kinds=frozenset(event.kind for event in tracked.events),
        nmi=nmi,
        known=NOTHING if naming is None else naming.of(result.graph, nodes, communities),
        held=(0,) * len(tracked.events),
    )


Found = TypeVar("Found")
OfPair = Callable[[SeenWindow, SeenWindow], Found]


def for_pairs(compute: OfPair[Found]) -> OfPair[Found]:
    """Return a function that computes each pair once; it keeps no window alive."""
    known: WeakKeyDictionary[SeenWindow, WeakKeyDictionary[SeenWindow, Found]] = WeakKeyDictionary()

    @wraps(compute)
    def remembered(window: SeenWindow, other: SeenWindow) -> Found:
        of_window = known.setdefault(window, WeakKeyDictionary())
        if other not in of_window:
            of_window[other] = compute(window, other)
        return of_window[other]

    return remembered
