"""Attributes of nodes that change while a program runs."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from stream_icd.names.attributes import Attributes, attributes_of
from stream_icd.node_ids import is_text

MOST_MEMORY = 256 << 20
"""Bytes of all attributes together; those of more nodes are ignored."""

A_GRAPH = 2000
"""Bytes of a graph without its nodes, at most."""

MOST_ATTRIBUTES = 64
"""Attributes of a graph; others are ignored, since each is a column of all nodes."""

AGAIN_SHARE = 20
"""A table is made anew after so many times the time that it took: in 5% of the time."""

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")

Row = tuple[tuple[str, str], ...]


class LiveAttributes:
    """The newest attributes of the nodes of any number of graphs, within a budget of memory.

    Every method may be called from any thread.

    Attributes:
        trouble: why the attributes of some nodes are missing; empty if all are there.
    """

    def __init__(
        self, most_bytes: int = MOST_MEMORY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.trouble = ""
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes = 0
        self._graphs: dict[str, _Graph] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes, ascending."""
        with self._lock:
            return tuple(sorted({one for graph in self._graphs.values() for one in graph.named}))

    def rows(self, graph: str) -> dict[str, dict[str, str]]:
        """Return the attributes of each node of a graph."""
        with self._lock:
            found = self._graphs.get(graph)
            return {} if found is None else {node: dict(row) for node, row in found.rows.items()}

    def take(self, graph: str, node: str, values: Mapping[str, str]) -> None:
        """Take the newest attributes of a node; empty: nothing is known of it any more."""
        with self._lock:
            of_graph = self._graphs.get(graph) or _Graph()
            self._bytes -= of_graph.remove(node)
            row = of_graph.with_room(values)
            if len(row) < len(values):
                self.trouble = (
                    f"attributes after the first {MOST_ATTRIBUTES} of a graph are ignored"
                )
            size = _size(node, row) + A_GRAPH * (len(self._graphs) + 1)
            if row and self._bytes + size > self._most_bytes:
                self.trouble = (
                    f"attributes take more than {self._most_bytes >> 20} MiB; those of other nodes "
                    "are ignored"
                )
            elif row:
                self._bytes += of_graph.put(node, row)
            if of_graph.rows:
                self._graphs[graph] = of_graph
            else:
                self._graphs.pop(graph, None)

    def of_graph(self, graph: str, kind: pa.DataType) -> Attributes | None:
        """Return the attributes of a graph whose ids have this type; None if there are none.

        Ids are texts. If those of the graph are integers, decimal integers count.
        """
        with self._lock:
            found = self._graphs.get(graph)
            return None if found is None else found.table(self._clock, text=is_text(kind))


@dataclass(slots=True)
class _Graph:
    """The nodes of one graph.

    Attributes:
        named: how many nodes have each attribute.
        tables: the last one made, its version and when it may be made anew; for texts, integers.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    named: Counter[str] = field(default_factory=Counter)
    version: int = 0
    tables: dict[bool, tuple[Attributes | None, int, float]] = field(default_factory=dict)

    def with_room(self, values: Mapping[str, str]) -> Row:
        """Return the attributes that the graph has, or may have besides."""
        new = sorted(values.keys() - self.named.keys())
        ignored = set(new[MOST_ATTRIBUTES - len(self.named) :])
        return tuple(sorted(pair for pair in values.items() if pair[0] not in ignored))

    def remove(self, node: str) -> int:
        """Remove a node's row; return how many bytes it had."""
        row = self.rows.pop(node, ())
        self.named -= Counter(name for name, _ in row)
        self.version += bool(row)
        return _size(node, row)

    def put(self, node: str, row: Row) -> int:
        """Add a node's row; return how many bytes it has."""
        self.rows[node] = row
        self.named.update(name for name, _ in row)
        self.version += 1
        return _size(node, row)

    def table(self, clock: Callable[[], float], *, text: bool) -> Attributes | None:
        began = clock()
        made, version, again = self.tables.get(text, (None, -1, began))
        if version == self.version or began < again:
            return made
        made = self._made(text=text)
        took = clock() - began
        self.tables[text] = made, self.version, began + AGAIN_SHARE * took
        return made

    def _made(self, *, text: bool) -> Attributes | None:
        if text:
            ids = pa.array(list(self.rows), pa.string())
            rows = [dict(row) for row in self.rows.values()]
        else:
            whole = ((int(one), row) for one, row in self.rows.items() if INTEGER.fullmatch(one))
            numbers = {one: dict(row) for one, row in whole if -(1 << 63) <= one < 1 << 64}
            if high := max(numbers, default=0) >= 1 << 63:  # as ids of type uint64
                numbers = {number: row for number, row in numbers.items() if number >= 0}
            ids = pa.array(list(numbers), pa.uint64() if high else pa.int64())
            rows = list(numbers.values())
        if not rows:
            return None
        return attributes_of(
            ids, {name: pa.array([row.get(name) for row in rows]) for name in sorted(self.named)}
        )


def _size(node: str, row: Row) -> int:
    """Return the bytes that a node takes, at most: a value may be shared with other nodes."""
    if not row:
        return 0
    texts = sum(sys.getsizeof(text) for pair in row for text in pair)
    return 200 + sys.getsizeof(node) + texts + 100 * len(row)
