"""Attributes of nodes, such as a country or a class: a fixed table, or one that changes."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings
from stream_icd.core.node_ids import id_array, is_id_type, is_text, places, values_of, widened
from stream_icd.core.printable import listed, printable, shortened

UNKNOWN = -1
"""Code of a node without a value."""

_MOST_MEMORY = 256 << 20
"""Bytes of all attributes together; those of more nodes are ignored."""

A_GRAPH = 2000
"""Bytes of a graph without its nodes, at most."""

MOST_ATTRIBUTES = 64
"""Attributes of a graph; others are ignored, since each is a column of all nodes."""

_AGAIN_SHARE = 20
"""A table is made anew after so many times the time that it took: in 5% of the time."""

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}")

Row = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One attribute, such as `country`."""

    name: str
    values: tuple[str, ...]  # ascending
    codes: NDArray[np.int32]  # (n,) position of each node's value in `values`, or `UNKNOWN`


@dataclass(frozen=True, slots=True, eq=False)
class Attributes:
    """Attributes of nodes; made by `attributes_of`.

    Attributes:
        nodes: `(n,)` ids, ascending, each once.
    """

    nodes: pa.Array
    columns: tuple[Attribute, ...]

    def of_nodes(
        self, nodes: Sequence[int | str] | NDArray[Any] | pa.Array
    ) -> tuple[Attribute, ...]:
        """Return the attributes of other nodes, in their order; unknown for those not listed.

        Raises `BadSettings` if their ids are of another kind, so that no node can ever be found.
        """
        nodes = _ids(nodes) if len(nodes) else self.nodes[:0]  # an empty list has no type
        if is_text(nodes.type) != is_text(self.nodes.type):
            ours, theirs = (
                ("text", "integers") if is_text(self.nodes.type) else ("integers", "text")
            )
            raise BadSettings(
                f"the table of attributes names nodes by {ours}, the graph by {theirs}: no node "
                "can be found. Give the column node the type of the graph's ids"
            )
        at = places(nodes, self.nodes)
        return tuple(
            Attribute(column.name, column.values, np.append(column.codes, np.int32(UNKNOWN))[at])
            for column in self.columns
        )

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the known values of each node, by its id as text."""
        rows: dict[str, dict[str, str]] = {str(node): {} for node in self.nodes.to_pylist()}
        for column in self.columns:
            for row, code in zip(rows.values(), column.codes.tolist(), strict=True):
                if code != UNKNOWN:
                    row[column.name] = column.values[code]
        return rows

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


class Tables:
    """Fixed tables of attributes: one for each graph, or one for the only graph that there is.

    A node of another graph may have the same id. So if a second graph comes, a table without a
    graph belongs to none of them, and `trouble` says so.
    """

    def __init__(self, tables: Mapping[str | None, Attributes]) -> None:
        self.trouble = ""  # why no graph has attributes
        self._tables = dict(tables)  # None: that of the only graph
        self._only: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes, ascending."""
        return tuple(sorted({name for table in self._tables.values() for name in table.names}))

    @property
    def needs_one_graph(self) -> bool:
        """Whether a table does not say to which graph it belongs."""
        return None in self._tables

    def of_graph(self, graph: str, kind: pa.DataType) -> Attributes | None:  # noqa: ARG002
        """Return the attributes of a graph: see `LiveAttributes.of_graph`."""
        if self.needs_one_graph:
            self._only = self._only or graph
            if graph != self._only:
                self.trouble = of_which_graph((self._only, graph))
            if self.trouble:
                return None
        return self._tables.get(graph, self._tables.get(None))


def of_which_graph(graphs: Collection[str]) -> str:
    """Say that a table of attributes does not say to which of these graphs it belongs."""
    first = min(graphs)
    return (
        f"the table of attributes does not say whether it belongs to {listed(sorted(graphs))}: "
        f"give --names {shortened(printable(first), 40)}=FILE, once for each graph, or one --graph"
    )


def attributes_of(
    nodes: Sequence[int | str] | NDArray[Any] | pa.Array,
    columns: Mapping[str, Sequence[object] | pa.Array],
) -> Attributes:
    """Return attributes from a column of ids and one or more columns of values.

    Columns are lists, or those of NumPy, pandas, Polars or Arrow, by name or in a table of the last
    three. Values are compared as text. A null, a NaN or an empty text is unknown.

    Raises:
        BadSettings: there is no attribute, a node has no id or is listed twice, the ids are neither
            integers nor text, or a column has another length or values of several types.

    >>> countries = attributes_of(pa.array([7018, 3303]), {"country": ["US", "CH"]})
    >>> countries.columns[0].values
    ('CH', 'US')
    """
    import pyarrow.compute as pc

    names = list(getattr(columns, "column_names", getattr(columns, "columns", columns)))
    if not names:
        raise BadSettings("a table of attributes needs a column besides node, such as country")
    nodes = _ids(nodes)
    if nodes.null_count:
        raise BadSettings(f"{nodes.null_count} rows have no node; give each row one")
    if n_doubled := len(nodes) - len(pc.unique(nodes)):
        (doubled, _), *_ = Counter(nodes.to_pylist()).most_common(1)
        raise BadSettings(
            f"{n_doubled} rows name a node that another row names too, such as {doubled!r}; give "
            "each node one row"
        )
    order = pc.sort_indices(nodes)
    return Attributes(
        nodes.take(order),
        tuple(_attribute(name, columns[name], order) for name in names),
    )


def _ids(nodes: Any) -> pa.Array:
    """Return a column of ids, whatever holds it, as one array of the type of their kind."""
    if isinstance(nodes, set | frozenset):
        raise BadSettings("node ids are a set, which has no order: give a list")
    try:
        ids = nodes if isinstance(nodes, pa.Array | pa.ChunkedArray) else id_array(nodes)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadSettings(f"node ids are neither integers of 64 bits nor text: {error}") from error
    ids = values_of(ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids)
    if not is_id_type(ids.type):
        raise BadSettings(f"node ids are integers or text, not {ids.type}")
    return widened(ids)


def _attribute(name: str, values: Sequence[object] | pa.Array, order: pa.Array) -> Attribute:
    import pyarrow.compute as pc

    if isinstance(values, str | Mapping | set | frozenset):
        raise BadSettings(
            f"column {name} is a {type(values).__name__}: give a list of values, in the order of "
            "the nodes"
        )
    if len(values) != len(order):
        raise BadSettings(f"column {name} has {len(values)} values for {len(order)} nodes")
    try:
        given = pa.array(values, from_pandas=True)  # NaN among texts is null
        text = given.cast(pa.string()).take(order)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadSettings(f"column {name} is not all text or all numbers: {error}") from error
    unknown = ["", "nan"] if pa.types.is_floating(given.type) else [""]
    text = pc.if_else(pc.is_in(text, pa.array(unknown)), None, text)
    known = pc.unique(text.drop_null())
    known = known.take(pc.sort_indices(known))
    codes = pc.fill_null(pc.index_in(text, value_set=known), UNKNOWN).to_numpy()
    return Attribute(name, tuple(known.to_pylist()), codes.astype(np.int32))


class LiveAttributes:
    """The newest attributes of the nodes of any graphs, within a budget of memory; thread-safe."""

    def __init__(
        self, most_bytes: int = _MOST_MEMORY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.trouble = ""  # why the attributes of some nodes are missing
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes = 0
        self._graphs: dict[str, _Graph] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes, ascending."""
        with self._lock:
            return tuple(sorted({name for graph in self._graphs.values() for name in graph.named}))

    def rows(self, graph: str) -> dict[str, dict[str, str]]:
        """Return the attributes of each node of a graph."""
        with self._lock:
            known = self._graphs.get(graph, _Graph())
            return {node: dict(row) for node, row in known.rows.items()}

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
        """Return the attributes of a graph whose ids have this type; None if there are none."""
        with self._lock:
            known = self._graphs.get(graph)
            return None if known is None else known.table(self._clock, text=is_text(kind))


@dataclass(slots=True)
class _Graph:
    """The nodes of one graph."""

    rows: dict[str, Row] = field(default_factory=dict)
    named: Counter[str] = field(default_factory=Counter)  # how many nodes have each attribute
    version: int = 0
    # For texts and for integers: the last one made, its version and when it may be made anew.
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
        self.tables[text] = made, self.version, began + _AGAIN_SHARE * took
        return made

    def _made(self, *, text: bool) -> Attributes | None:
        if text:
            ids = pa.array(list(self.rows), pa.string())
            rows = [dict(row) for row in self.rows.values()]
        else:
            whole = ((int(node), row) for node, row in self.rows.items() if INTEGER.fullmatch(node))
            numbers = {number: dict(row) for number, row in whole if -(1 << 63) <= number < 1 << 64}
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
