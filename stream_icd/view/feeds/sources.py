"""What a page reads from; behind one contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from stream_icd.errors import StreamIcdError
from stream_icd.snapshot import Snapshot
from stream_icd.view.data.all_series import Publish
from stream_icd.view.data.kept import Kept
from stream_icd.view.data.series import SeriesName
from stream_icd.view.data.window import SeenWindow

KEPT_PARTS = 12_000_000
"""Nodes and edges of the snapshots in memory, at most: some 300 MB."""


class NoGraph(StreamIcdError):
    """The graph of a window is not available; the message says why."""


def checked(snapshot: Snapshot, window: SeenWindow) -> Snapshot:
    """Return the graph, if it is that of the window."""
    if (snapshot.graph, snapshot.id) != (window.result.graph, window.result.snapshot_id):
        raise NoGraph("the topic holds another snapshot there: it was created anew")
    return snapshot


@dataclass(slots=True)
class KeptSnapshots:
    """The graphs that were read last, within `KEPT_PARTS`; `source` reads one at a time."""

    source: Callable[[SeriesName, SeenWindow], Snapshot]
    _kept: Kept[tuple[str, ...], Snapshot] = field(default_factory=lambda: Kept(KEPT_PARTS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, name: SeriesName, window: SeenWindow) -> Snapshot:
        """Return the graph; raise `StreamIcdError`, such as `NoGraph`, if it is not available."""
        with self._lock:
            identity = (name.origin, *window.result.identity())
            if (kept := self._kept.get(identity)) is not None:
                return kept
            snapshot = self.source(name, window)
            parts = min(snapshot.n_nodes + snapshot.n_edges, KEPT_PARTS)  # it is kept in any case
            return self._kept.put(identity, snapshot, parts)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a page reads from.

    `reading` reads for the duration of its block, and publishes each new window.
    """

    snapshots: KeptSnapshots
    reading: Callable[[Publish], AbstractContextManager[object]] = lambda _: nullcontext()
    troubles: Callable[[], Mapping[str, str]] = dict  # by topic or archive
    lag: Callable[[], int | None] = lambda: None  # snapshots without results; None: not known
    archive: bool = False  # whether nothing is live
    caught_up: Callable[[], bool] = lambda: True  # whether all that was there at first was read
