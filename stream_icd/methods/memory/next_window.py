"""A graph of any kind as the next window of a stream: ids of its nodes, and a window."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, triu

from stream_icd.core.errors import BadInput
from stream_icd.core.node_ids import id_array, is_id_type, values_of
from stream_icd.core.snapshot import Snapshot, Window, check_weights
from stream_icd.methods.graphs.adjacency import NO_WINDOW, as_named
from stream_icd.methods.memory.memory import Memory


def next_window(
    graph: Any, memory: Memory | None, nodes: Any = None
) -> tuple[Snapshot, csr_array, NDArray[np.int64]]:
    """Return a graph as the window after those that are remembered.

    That is a snapshot, its adjacency, and the row of the given graph that each of its nodes is.

    Args:
        graph: of any kind that `as_adjacency` accepts. A `Snapshot` has a window and ids of its
            own. Any other graph is the window right after the last one.
        nodes: id of each node, `(n,)`, unique, all integers or all strings. None: those that the
            graph has (`as_named`).

    Raises:
        BadInput: the graph or the ids cannot be used, or the weights are too small or too large to
            be added up over windows (`check_weights`).
    """
    if isinstance(graph, Snapshot):
        if nodes is not None:
            raise BadInput("a Snapshot has ids of its nodes: leave out nodes")
        return graph, graph.adjacency(), np.arange(graph.n_nodes)
    named = as_named(graph)
    given = named.adjacency
    ids = _checked_ids(named.nodes if nodes is None else nodes, given.shape[0])
    order = ids.argsort(kind="stable")
    adjacency = csr_array(given[order][:, order])
    adjacency.sort_indices()
    upper, window = triu(adjacency, 1, format="coo"), NO_WINDOW
    check_weights(upper.data)
    if memory is not None:
        window = _after(memory.window)
    snapshot = Snapshot(
        graph="graph",
        id="graph",
        window=window,
        nodes=pa.array(ids[order]),
        edges=np.stack(upper.coords).astype(np.int64),
        weights=upper.data,
    )
    return snapshot, adjacency, order


def _after(last: Window) -> Window:
    """Return the window right after the last one, of the same length, or a second."""
    try:
        return Window(last.end, last.end + max(last.end - last.start, timedelta(seconds=1)))
    except OverflowError as error:
        raise BadInput(
            f"no window can follow that which ends at {last.end}: give Snapshots, whose windows "
            "end before the year 9999"
        ) from error


def _checked_ids(nodes: Any, n: int) -> NDArray[Any]:
    if isinstance(nodes, set | frozenset):
        raise BadInput("the ids of the nodes are a set, which has no order: give nodes as a list")
    try:
        ids = values_of(id_array(nodes)) if len(nodes) else pa.array([], pa.int64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"the ids of the nodes are not all integers of 64 bits or all strings ({error}): give "
            "nodes"
        ) from error
    if not is_id_type(ids.type) or ids.null_count:
        raise BadInput(
            f"the ids of the nodes are {ids.type}, {ids.null_count} of them missing: give nodes, "
            "integers or strings"
        )
    if len(ids) != n or len(ids.unique()) != n:
        raise BadInput(
            f"{n} nodes need as many different ids; got {len(ids)}, {len(ids.unique())} different"
        )
    return np.asarray(ids.to_numpy(zero_copy_only=False))
