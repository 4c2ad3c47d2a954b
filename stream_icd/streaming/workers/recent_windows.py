"""What a worker keeps of each graph that it works on, within limits in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Generic, Protocol, TypeVar

from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking.packed import PackedWindow

_MOST_UNPACKED = 64 << 20
"""Bytes of the windows that are kept as they are, too: six graphs of 100,000 nodes."""

Recent = tuple[PackedWindow, ...]


class _Sized(Protocol):
    @property
    def n_bytes(self) -> int: ...


_Kept = TypeVar("_Kept", bound=_Sized)


class RecentWindows(Generic[_Kept]):
    """The last windows of each graph, or what is kept of them.

    Above `most_bytes`, the graphs that were worked on longest ago are let go: they must be read
    from their topic again when they are needed. What a batch changes counts once it is committed.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, tuple[_Kept, ...]] = {}  # longest ago first
        self._changed: dict[str, tuple[_Kept, ...]] = {}  # by this batch
        self._before: tuple[str, tuple[_Kept, ...]] = "", ()  # a graph before its last change
        self.n_bytes = 0
        self.let_go: set[str] = set()

    def get(self, graph: str) -> tuple[_Kept, ...]:
        return self._changed[graph] if graph in self._changed else self._kept.get(graph, ())

    def missing(self, graphs: Collection[str]) -> set[str]:
        """Return the graphs that must be read again."""
        # Not those that this batch has changed: the topic does not have these windows yet.
        return (self.let_go & set(graphs)) - self._changed.keys()

    def begin(self) -> None:
        """Forget what a batch has changed that was not committed."""
        self._changed = {}

    def change(self, graph: str, recent: tuple[_Kept, ...]) -> None:
        """Set the windows of a graph in this batch."""
        self._before, self._changed[graph] = (graph, self.get(graph)), recent

    def undo(self) -> None:
        """Take the last change back."""
        graph, recent = self._before
        self._changed[graph] = recent

    def commit(self) -> None:
        for graph, recent in self._changed.items():
            self.put(graph, recent)

    def put(self, graph: str, recent: tuple[_Kept, ...]) -> None:
        """Set the windows of a graph; let go of others if that is too much."""
        self._drop(graph)
        self._kept[graph] = recent
        self.n_bytes += _size(recent)
        self.let_go.discard(graph)
        # The graph in hand stays, however large it is: it is needed for the next window.
        while self.n_bytes > self._most_bytes and len(self._kept) > 1:
            self.leave(next(iter(self._kept)))

    def leave(self, graph: str) -> None:
        self._drop(graph)
        self.let_go.add(graph)

    def _drop(self, graph: str) -> None:
        self.n_bytes -= _size(self._kept.pop(graph, ()))


def _size(recent: Iterable[_Sized]) -> int:
    return sum(window.n_bytes for window in recent)


class Unpacked:
    """The windows that were used last as they are, so that they need not be unpacked again."""

    def __init__(self, most_bytes: int = _MOST_UNPACKED) -> None:
        self._most_bytes = most_bytes
        self._windows: OrderedDict[PackedWindow, CommunityEvents] = OrderedDict()
        self.n_bytes = 0

    def all(self, recent: Iterable[PackedWindow]) -> tuple[CommunityEvents, ...]:
        return tuple(map(self._one, recent))

    def put(self, packed: PackedWindow, window: CommunityEvents) -> None:
        self._windows[packed] = window
        self.n_bytes += window.n_bytes
        while self.n_bytes > self._most_bytes:
            self.n_bytes -= self._windows.popitem(last=False)[1].n_bytes

    def _one(self, packed: PackedWindow) -> CommunityEvents:
        window = self._windows.get(packed)
        if window is None:
            window = packed.whole()
            self.put(packed, window)
        else:
            self._windows.move_to_end(packed)
        return window
