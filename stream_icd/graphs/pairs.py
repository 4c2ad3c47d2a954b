"""A graph as a table of pairs: two columns of ids, in pandas, Polars, Arrow or a list of tuples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from stream_icd.errors import BadInput
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs

WEIGHT = "weight"

NO_WINDOW = Window(datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC))
"""The window of a graph without times."""


def is_table_of_pairs(graph: Any) -> bool:
    """Whether a graph is given as pairs of ids: see `snapshot_of_pairs`.

    >>> is_table_of_pairs([("a", "b"), ("b", "c")]), is_table_of_pairs([[0, 1], [1, 0]])
    (True, False)
    """
    if isinstance(graph, list):
        return bool(graph) and all(isinstance(one, tuple) and len(one) == 2 for one in graph)
    names = column_names(graph)
    return names is not None and (len(names) == 2 or (len(names) == 3 and WEIGHT in names))


def column_names(graph: Any) -> list[str] | None:
    """Return the names of a table's columns; None if it is not a table."""
    if isinstance(graph, pa.Table | pa.RecordBatch):
        return list(graph.schema.names)
    if hasattr(graph, "__arrow_c_stream__") and hasattr(graph, "columns"):  # pandas, Polars
        return [str(name) for name in graph.columns]
    return None


def snapshot_of_pairs(graph: Any) -> Snapshot:
    """Return the graph of a table of pairs; its nodes are the ids in ascending order.

    Pairs are those of `snapshot_from_pairs`; a missing second id declares a node without an edge.

    Args:
        graph: a table of two columns of ids and, if it has a third, the column `weight`: a
            DataFrame of pandas or Polars, an Arrow table, or any other with the Arrow PyCapsule
            interface; or a list of tuples of two ids. All ids are integers or all are strings.

    Raises:
        BadSnapshot: the pairs make no graph; see `snapshot_from_pairs`.
        BadInput: the table or list is not one of Arrow's types.

    >>> graph = snapshot_of_pairs([("b", "a"), ("c", "b")])
    >>> graph.nodes.to_pylist(), graph.edges.tolist()
    (['a', 'b', 'c'], [[0, 1], [1, 2]])
    """
    src, dst, weights = _columns(graph)
    return snapshot_from_pairs(
        src, dst, graph="graph", id="graph", window=NO_WINDOW, weights=weights
    )


def _columns(graph: Any) -> tuple[Any, Any, Any]:
    try:
        if isinstance(graph, list):
            src, dst = zip(*graph, strict=True)
            return pa.array(src), pa.array(dst), None
        table = pa.table(graph) if not isinstance(graph, pa.RecordBatch) else graph
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"the ids of the pairs are not all integers or all strings: {error}"
        ) from error
    names = column_names(graph) or []
    ends = [place for place, name in enumerate(names) if len(names) == 2 or name != WEIGHT]
    if len(ends) != 2:
        raise BadInput(f"a table of pairs has two columns of ids and `weight`, not {names}")
    weights = _values(table.column(names.index(WEIGHT))) if len(names) == 3 else None
    return _values(table.column(ends[0])), _values(table.column(ends[1])), weights


def _values(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array; categories as their values."""
    kind = column.type
    plain = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    return plain.combine_chunks() if isinstance(plain, pa.ChunkedArray) else plain
