"""Attributes of nodes, such as a country or a class: a table for each graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings
from stream_icd.core.node_ids import id_array, is_id_type, is_text, places, values_of, widened

_UNKNOWN = -1
"""Code of a node without a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One attribute, such as `country`."""

    name: str
    values: tuple[str, ...]  # ascending
    codes: NDArray[np.int32]  # (n,) position of each node's value in `values`, or `_UNKNOWN`


@dataclass(frozen=True, slots=True, eq=False)
class Attributes:
    """Attributes of nodes; made by `attributes_of`."""

    nodes: pa.Array  # (n,) ids, ascending, each once
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
        # Place -1, of a node that the table lacks, reads the entry after the last: unknown.
        at = places(nodes, self.nodes)
        return tuple(
            Attribute(column.name, column.values, np.append(column.codes, np.int32(_UNKNOWN))[at])
            for column in self.columns
        )

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the known values of each node, by its id as text."""
        rows: dict[str, dict[str, str]] = {str(node): {} for node in self.nodes.to_pylist()}
        for column in self.columns:
            for row, code in zip(rows.values(), column.codes.tolist(), strict=True):
                if code != _UNKNOWN:
                    row[column.name] = column.values[code]
        return rows

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


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
    # Ascending, as `places` needs them.
    order = pc.sort_indices(nodes)
    return Attributes(
        nodes.take(order), tuple(_attribute(name, columns[name], order) for name in names)
    )


def _ids(nodes: Any) -> pa.Array:
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
        array = pa.array(values, from_pandas=True)  # NaN among texts is null
        text = array.cast(pa.string()).take(order)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadSettings(f"column {name} is not all text or all numbers: {error}") from error
    unknown = ["", "nan"] if pa.types.is_floating(array.type) else [""]
    # NaN among numbers has become the text "nan", which may be a value among texts.
    text = pc.if_else(pc.is_in(text, pa.array(unknown)), None, text)
    distinct = pc.unique(text.drop_null())
    distinct = distinct.take(pc.sort_indices(distinct))
    codes = pc.fill_null(pc.index_in(text, value_set=distinct), _UNKNOWN).to_numpy()
    return Attribute(name, tuple(distinct.to_pylist()), codes.astype(np.int32))
