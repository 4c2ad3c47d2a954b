"""A graph of any kind as the next window of a stream: ids of its nodes, and a window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, triu

from stream_icd.errors import BadInput
from stream_icd.graphs.adjacency import NO_WINDOW, as_named
from stream_icd.memory.detect import Remembered
from stream_icd.memory.memory import Memory
from stream_icd.node_ids import is_id_type
from stream_icd.snapshot import Snapshot, Window


@dataclass(frozen=True, slots=True, eq=False)
class NextWindow:
    """A graph as the next window of a stream, rows in the order of the snapshot's nodes.

    order: the row of the given graph that each node of the snapshot is, `(n,)`.
    """

    snapshot: Snapshot
    adjacency: csr_array
    order: NDArray[np.int64]

    def in_given_order(self, found: Remembered) -> Remembered:
        """Return the result with communities in the order of the given graph."""
        communities = np.empty_like(found.communities)
        communities[self.order] = found.communities
        return replace(found, communities=communities)


def next_window(graph: Any, memory: Memory | None, nodes: Any = None) -> NextWindow:
    """Return a graph as the window after those that are remembered.

    Args:
        graph: of any kind that `as_adjacency` accepts. A `Snapshot` has a window and ids of its
            own. Any other graph is the window right after the last one.
        nodes: id of each node, `(n,)`, unique, all integers or all strings. None: those that the
            graph has (`as_named`).

    Raises:
        BadInput: the graph or the ids cannot be used.
    """
    if isinstance(graph, Snapshot):
        if nodes is not None:
            raise BadInput("a Snapshot has ids of its nodes: leave out nodes")
        return NextWindow(graph, graph.adjacency(), np.arange(graph.n_nodes))
    named = as_named(graph)
    given = named.adjacency
    ids = _checked_ids(named.nodes if nodes is None else nodes, given.shape[0])
    order = ids.argsort(kind="stable")
    adjacency = csr_array(given[order][:, order])
    adjacency.sort_indices()
    upper = triu(adjacency, 1, format="coo")
    snapshot = Snapshot(
        graph="graph",
        id="graph",
        window=NO_WINDOW if memory is None else _after(memory.window),
        nodes=pa.array(ids[order]),
        edges=np.stack(upper.coords).astype(np.int64),
        weights=upper.data,
    )
    return NextWindow(snapshot, adjacency, order)


def _after(last: Window) -> Window:
    length = max(last.end - last.start, timedelta(seconds=1))
    return Window(last.end, last.end + length)


def _checked_ids(nodes: Any, n: int) -> NDArray[Any]:
    try:
        ids = pa.array(nodes) if len(nodes) else pa.array([], pa.int64())
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"the ids of the nodes are not all integers or all strings ({error}): give nodes"
        ) from error
    if not is_id_type(ids.type) or ids.null_count:
        raise BadInput(f"the ids of the nodes are {ids.type}: give nodes, integers or strings")
    if len(ids) != n or len(ids.unique()) != n:
        raise BadInput(
            f"{n} nodes need as many different ids; got {len(ids)}, {len(ids.unique())} different"
        )
    return np.asarray(ids.to_numpy(zero_copy_only=False))
