"""One window of a series, as the page knows it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.names.names import NAME_BYTES, NOTHING, WindowNames
from stream_icd.tracking.partition import Partition, by_name

WRITING = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
READING = pa.ipc.IpcReadOptions(use_threads=False)


def packed(nodes: pa.Array, ids: NDArray[np.int64]) -> bytes:
    """Return nodes and the stable ids of their communities, compressed; `unpacked` reads it."""
    table = pa.table({"node": nodes, "id": pa.array(_narrow(ids))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=WRITING) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(members: bytes) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return what `packed` was given."""
    table = pa.ipc.open_stream(members, options=READING).read_all().combine_chunks()
    nodes = cast(pa.Array, table["node"].combine_chunks())
    return nodes, table["id"].to_numpy().astype(np.int64)


def partition(members: bytes) -> Partition:
    """Return the communities of a window, named by their stable ids."""
    return by_name(*unpacked(members))


def _narrow(ids: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return the ids in the narrowest type that holds them: it compresses three times as well."""
    return ids.astype(np.min_scalar_type(int(ids.max(initial=0))))


def packed_events(events: tuple[CommunityEvent, ...]) -> bytes:
    """Return the events, compressed; `unpacked_events` reads them."""
    rows = [astuple(event) for event in events]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)


def unpacked_events(events: bytes) -> tuple[CommunityEvent, ...]:
    """Return what `packed_events` was given."""
    return tuple(_event(row) for row in json.loads(zlib.decompress(events)))


def _event(row: list[Any]) -> CommunityEvent:
    fields: list[Any] = [tuple(one) if isinstance(one, list) else one for one in row]
    return CommunityEvent(*fields)


OVERHEAD = 2000
"""Bytes of a window's Python objects, measured."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SeenWindow:
    """A result with the stable ids of its communities.

    Attributes:
        number: position in its series, from 0; a corrected window keeps its number.
        result: the result without its nodes, labels and ids: they are in `members`.
        n_nodes: number of nodes.
        ids, sizes: stable id and number of members of each community, `(K,)` int64, ids ascending.
        members: nodes and stable ids (`members.unpacked`).
        happened: what happened to the communities (`packed_events.unpacked_events`).
        kinds: the kinds of these events, so that only windows with wanted ones are unpacked.
        next_community: the first stable id not yet used.
        missed: number of missing windows before this one.
        model_before: the model of the window before, if it was another one.
        from_tracker: whether ids and events are those of the events topic; else the page tracked
            the communities itself.
        nmi: agreement with the known communities; None if these are unknown.
        known: names of the communities, and their agreement with attributes.
        held: for how many later windows each event has held, at most `CONFIRMED`; below 0: it was
            undone in that later window.
    """

    number: int
    result: Communities
    n_nodes: int
    ids: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members: bytes
    happened: bytes
    kinds: frozenset[str]
    next_community: int
    missed: int
    model_before: str | None
    from_tracker: bool
    nmi: float | None = None
    known: WindowNames = NOTHING
    held: tuple[int, ...] = ()

    @property
    def n_communities(self) -> int:
        """K: number of communities."""
        return len(self.ids)

    @property
    def sizes_by_id(self) -> dict[int, int]:
        """Number of members of each community, by stable id."""
        return dict(zip(self.ids.tolist(), self.sizes.tolist(), strict=True))

    @property
    def events(self) -> tuple[CommunityEvent, ...]:
        """What happened to the communities."""
        return unpacked_events(self.happened)

    def held_events(self) -> Iterator[tuple[CommunityEvent, int]]:
        """Yield each event and for how many later windows it has held; see `held`."""
        yield from zip(self.events, self.held, strict=True)

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
        return CommunityEvents(
            graph=self.result.graph,
            snapshot_id=self.result.snapshot_id,
            window=self.result.window,
            model=self.result.model,
            nodes=nodes,
            communities=communities,
            events=self.events if events else (),
            next_community=self.next_community,
            missed=self.missed,
            model_before=self.model_before,
            revision=self.result.revision,
            snapshot_place=self.result.snapshot_place,
        )


def seen_window(
    number: int,
    result: Communities,
    tracked: CommunityEvents,
    *,
    from_tracker: bool,
    nmi: float | None = None,
    known: WindowNames = NOTHING,
) -> SeenWindow:
    """Return the window of a result, with the identities that were tracked in it."""
    ids, sizes = np.unique(tracked.communities, return_counts=True)
    return SeenWindow(
        number=number,
        result=replace(
            result,
            nodes=pa.array([], pa.int64()),
            labels=np.empty(0, np.int32),
            community_ids=None,
            replaced=None,
        ),
        n_nodes=len(tracked.nodes),
        ids=ids,
        sizes=sizes.astype(np.int64),
        members=packed(tracked.nodes, tracked.communities),
        happened=packed_events(tracked.events),
        kinds=frozenset(event.kind for event in tracked.events),
        next_community=tracked.next_community,
        missed=tracked.missed,
        model_before=tracked.model_before,
        from_tracker=from_tracker,
        nmi=nmi,
        known=known,
        held=(0,) * len(tracked.events),
    )


Found = TypeVar("Found")
OfPair = Callable[[SeenWindow, SeenWindow], Found]


def for_pairs(compute: OfPair[Found]) -> OfPair[Found]:
    """Return a function that computes each pair once; it keeps no window alive."""
    known: WeakKeyDictionary[SeenWindow, WeakKeyDictionary[SeenWindow, Found]] = WeakKeyDictionary()

    @wraps(compute)
    def remembered(one: SeenWindow, other: SeenWindow) -> Found:
        found = known.setdefault(one, WeakKeyDictionary())
        if other not in found:
            found[other] = compute(one, other)
        return found[other]

    return remembered
