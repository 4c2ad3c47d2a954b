"""Memories that this process encoded last, so that the next window need not decode them.

A file of its own: a detector's first process holds them for others, and loads nothing compiled.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.methods.memory.memory import Memory

_MOST_KEPT = 30 * 10**6
"""Bytes of all memories that are kept."""

_A_GRAPH = 7000
"""Bytes of a graph of hardly any nodes."""


class RecentMemories:
    """The memories that this process encoded last, by graph.

    What is decoded is equal to what was encoded, bit for bit, so results do not depend on whether
    a memory is still here. Above `most_kept` bytes, the longest unused are dropped.
    """

    def __init__(self, most_kept: int = _MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._n_kept = 0
        self._kept: OrderedDict[str, tuple[bytes, Memory, int]] = OrderedDict()

    def get(self, graph: str, encoded: bytes) -> Memory | None:
        """Return the memory that these bytes encode; None if it is not here."""
        kept, memory, _ = self._kept.get(graph, (None, None, 0))
        return memory if kept == encoded else None

    def put(self, graph: str, encoded: bytes, memory: Memory) -> None:
        size = _A_GRAPH + len(encoded) + memory.n_bytes
        self._n_kept += size - self._kept.pop(graph, (b"", memory, 0))[2]
        self._kept[graph] = encoded, memory, size
        while self._n_kept > self._most_kept:
            self._n_kept -= self._kept.popitem(last=False)[1][2]
