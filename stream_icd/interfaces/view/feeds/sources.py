"""The contract of what a page reads from: topics or archives."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime

from stream_icd.core.errors import StreamIcdError
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.all_series import Publish
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.data.series import SeenWindow, SeriesName

_KEPT_BYTES = 300 * 10**6  # snapshots in memory, at most


class NoGraph(StreamIcdError):
    """The graph of a window is not available; the message says why."""


@dataclass(slots=True)
class Sources:
    """What a page reads from; by default, no results beside those that it has."""

    archive = True  # whether nothing is live
    _kept: KeptValues[tuple[str, ...], Snapshot] = field(
        init=False, default_factory=lambda: KeptValues(_KEPT_BYTES)
    )
    _one_at_a_time: threading.Lock = field(init=False, default_factory=threading.Lock)

    def snapshot(self, name: SeriesName, window: SeenWindow) -> Snapshot:
        """Return the graph of a window; those read last are kept, within `_KEPT_BYTES`.

        Raises `StreamIcdError`, such as `NoGraph`, if it is not available.
        """
        with self._one_at_a_time:  # else two tabs would read the same large graph twice
            identity = (name.origin, *window.result.identity())
            if (cached := self._kept.get(identity)) is not None:
                return cached
            snapshot = self.read_snapshot(name, window)
            if (snapshot.graph, snapshot.id) != (window.result.graph, window.result.snapshot_id):
                raise NoGraph("the topic holds another snapshot there: it was created anew")
            size = min(snapshot.n_bytes, _KEPT_BYTES)  # it is kept in any case
            return self._kept.put(identity, snapshot, size)

    def read_snapshot(self, name: SeriesName, window: SeenWindow) -> Snapshot:
        """Read the graph of a window; raises as `snapshot`."""
        raise NotImplementedError

    def reading(self, _publish: Publish, /) -> AbstractContextManager[object]:
        """Read for the duration of a block, and publish each new or changed window."""
        return nullcontext()

    def troubles(self) -> dict[str, str]:
        """Return what cannot be read at the moment, a topic or an archive, and why."""
        return {}

    def lag(self) -> int | None:
        """Return how many snapshots have no result yet; None: not known."""
        return None

    def snapshots_there(self) -> bool:
        """Return whether there are snapshots, with or without a result; False: none is known."""
        return False

    def latest(self) -> datetime | None:
        """Return when the newest result was sent; None: not known, or of the past."""
        return None

    def caught_up(self) -> bool:
        """Whether all that was there at first was read."""
        return True
