"""Nodes that a file of numbered nodes declares, beside its edges."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.core.arrays import Ids
from stream_icd.core.errors import BadInput
from stream_icd.sources.tables import RawRows

_ANY_FILE_DECLARES = 1 << 20
"""Number of nodes that a file of any size may declare by their number alone."""


def check_number_of_nodes(n_nodes: int, size: int) -> None:
    """Raise `BadInput` if a text of this size declares more nodes than memory should be given."""
    if n_nodes > _ANY_FILE_DECLARES + size:
        raise BadInput(
            f"it declares {n_nodes:,} nodes; the limit for its {size:,} bytes is "
            f"{_ANY_FILE_DECLARES + size:,}. Write an edge list, whose nodes need not be declared"
        )


def with_nodes(origin: str, place: Ids, edges: pa.Table, nodes: pa.Array) -> RawRows:
    """Return edges, each with its line `place`, and after them the nodes without an edge.

    A node without an edge is a row without `dst`, at line 0; `nodes` are all nodes, as in `src`.
    """
    linked = pa.concat_arrays([*edges["src"].chunks, *edges["dst"].chunks, nodes.slice(0, 0)])
    alone = nodes.filter(pc.invert(pc.is_in(nodes, linked)))
    declared = pa.table({"src": alone})
    rows = pa.concat_tables([edges, declared], promote_options="default") if len(alone) else edges
    return RawRows(origin, np.append(place, np.zeros(len(alone), np.int64)), rows)
