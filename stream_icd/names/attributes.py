"""Attributes of nodes: what is known of them besides their edges, such as a country or a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadSettings
from stream_icd.node_ids import is_id_type, is_text, places, widened

UNKNOWN = -1
"""Code of a node without a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One attribute.

    Attributes:
        name: such as `country`.
        values: ascending.
        codes: position of each node's value in `values`, `(n,)`; `UNKNOWN` without one.
    """

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Attributes:
    """Attributes of nodes; made by `attributes_of`.

    Attributes:
        nodes: `(n,)` ids, ascending, each once.
    """

    nodes: pa.Array
    columns: tuple[Attribute, ...]

    def of_nodes(self, nodes: pa.Array) -> tuple[Attribute, ...]:
        """Return the attributes of other nodes, in their order; unknown for those not listed.

        Raises `BadSettings` if their ids are of another kind, so that no node can ever be found.
        """
        if is_text(nodes.type) != is_text(self.nodes.type):
            ours, theirs = (
                "text" if is_text(one.type) else "integers" for one in (self.nodes, nodes)
            )
            raise BadSettings(
                f"the table of attributes names nodes by {ours}, the graph by {theirs}: no node "
                "can be found. Give the column node the type of the graph's ids"
            )
        at = places(widened(nodes), self.nodes)
        return tuple(
            Attribute(column.name, column.values, np.append(column.codes, np.int32(UNKNOWN))[at])
            for column in self.columns
        )

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the known values of each node, by its id as text."""
        found: dict[str, dict[str, str]] = {str(node): {} for node in self.nodes.to_pylist()}
        for column in self.columns:
            for row, code in zip(found.values(), column.codes.tolist(), strict=True):
                if code != UNKNOWN:
                    row[column.name] = column.values[code]
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(column.name for column in self.columns)

    @property
    def trouble(self) -> str:
        """A fixed table lacks nothing: see `LiveAttributes.trouble`."""
        return ""

    def of_graph(self, graph: str, kind: pa.DataType) -> Attributes:  # noqa: ARG002
        """Return the attributes of any graph: see `LiveAttributes.of_graph`."""
        return self


def attributes_of(
    nodes: pa.Array, columns: Mapping[str, Sequence[object] | pa.Array]
) -> Attributes:
    """Return attributes from a column of ids and one or more columns of values.

    Values are compared as text. A null or an empty text is unknown.

    Raises:
        BadSettings: there is no attribute, a node has no id or is listed twice, or the ids are
            neither integers nor text.

    >>> countries = attributes_of(pa.array([7018, 3303]), {"country": ["US", "CH"]})
    >>> countries.columns[0].values
    ('CH', 'US')
    """
    import pyarrow.compute as pc

    if not columns:
        raise BadSettings("a table of attributes needs a column besides node, such as country")
    if not is_id_type(nodes.type):
        raise BadSettings(f"node ids are integers or text, not {nodes.type}")
    if nodes.null_count:
        raise BadSettings(f"{nodes.null_count} rows have no node; give each row one")
    nodes = widened(nodes)
    if n_doubled := len(nodes) - len(pc.unique(nodes)):
        (doubled, _), *_ = Counter(nodes.to_pylist()).most_common(1)
        raise BadSettings(
            f"{n_doubled} rows name a node that another row names too, such as {doubled!r}; give "
            "each node one row"
        )
    order = pc.sort_indices(nodes)
    return Attributes(
        nodes.take(order),
        tuple(_attribute(name, pa.array(values), order) for name, values in columns.items()),
    )


def _attribute(name: str, values: pa.Array, order: pa.Array) -> Attribute:
    import pyarrow.compute as pc

    try:
        text = values.cast(pa.string()).take(order)
    except pa.ArrowException as error:
        raise BadSettings(f"column {name} has type {values.type}; give text or numbers") from error
    text = pc.if_else(pc.equal(text, ""), None, text)
    known = pc.unique(text.drop_null())
    known = known.take(pc.sort_indices(known))
    codes = pc.fill_null(pc.index_in(text, value_set=known), UNKNOWN).to_numpy()
    return Attribute(name, tuple(known.to_pylist()), codes.astype(np.int32))
