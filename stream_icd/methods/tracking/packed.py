"""Tracked windows in few bytes: a message of a kilobyte can hold ids that take megabytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.wire.arrow_stream import READING, write_table

_NO_NODES, _NO_IDS = pa.nulls(0, pa.int64()), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PackedWindow:
    """A tracked window: its nodes, communities and events are compressed, not in `about`."""

    about: CommunityEvents
    members: bytes  # nodes and stable ids (`unpacked`)
    happened: bytes  # events (`events`)

    @classmethod
    def of(cls, window: CommunityEvents) -> PackedWindow:
        rows = json.dumps(list(map(_row_of, window.events)), separators=(",", ":"))
        return cls(
            about=replace(window, nodes=_NO_NODES, communities=_NO_IDS, events=()),
            members=packed(window.nodes, window.communities),
            # The fastest level: events are packed for each window, and most are alike.
            happened=zlib.compress(rows.encode(), 1),
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of memory, approximately."""
        return self.about.n_bytes + len(self.members) + len(self.happened)

    @property
    def late(self) -> bool:
        return self.about.late

    @property
    def revision(self) -> str:
        return self.about.revision

    def identity(self) -> tuple[str, str, str, str]:
        return self.about.identity()

    def events(self) -> tuple[CommunityEvent, ...]:
        return tuple(_event_of(row) for row in self._rows())

    def numbered_events(self, kinds: Collection[str]) -> Iterator[tuple[int, CommunityEvent]]:
        """Yield the events of these kinds, each with its place among all.

        Only these are made of their fields: most others say that a community continues.
        """
        return ((at, _event_of(row)) for at, row in enumerate(self._rows()) if row[0] in kinds)

    def whole(self) -> CommunityEvents:
        return replace(self.without_events(), events=self.events())

    def without_events(self) -> CommunityEvents:
        nodes, communities = unpacked(self.members)
        return replace(self.about, nodes=nodes, communities=communities)

    def _rows(self) -> list[list[Any]]:
        rows: list[list[Any]] = json.loads(zlib.decompress(self.happened))
        return rows


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


_row_of = attrgetter(*(field.name for field in fields(CommunityEvent)))
"""The fields of an event; `astuple` copies each of them, which takes fifty times as long."""


def _event_of(row: list[Any]) -> CommunityEvent:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return CommunityEvent(*values)
