"""A graph of any kind as an adjacency matrix and the names of its rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.graphs.adjacency import as_adjacency
from stream_icd.graphs.pairs import is_table_of_pairs, snapshot_of_pairs
from stream_icd.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class NamedGraph:
    """A graph and the names of its nodes.

    Attributes:
        adjacency: `(n, n)`, canonical (`as_adjacency`).
        nodes: the name of each row, `(n,)`: the ids of a `Snapshot` or a table of pairs, the
            names in a NetworkX or an igraph graph, and positions otherwise.
    """

    adjacency: csr_array
    nodes: NDArray[Any]


def as_named(graph: Any) -> NamedGraph:
    """Return a graph of any kind that `as_adjacency` takes, with the names of its nodes.

    Raises:
        BadInput, BadSettings: see `as_adjacency`.

    >>> as_named([("b", "a"), ("c", "b")]).nodes.tolist()
    ['a', 'b', 'c']
    """
    if is_table_of_pairs(graph):
        graph = snapshot_of_pairs(graph)
    adjacency = as_adjacency(graph)
    if isinstance(graph, Snapshot):
        return NamedGraph(adjacency, graph.nodes.to_numpy(zero_copy_only=False))
    names = _names(graph)
    return NamedGraph(adjacency, np.arange(adjacency.shape[0]) if names is None else names)


def _names(graph: Any) -> NDArray[Any] | None:
    networkx, igraph = sys.modules.get("networkx"), sys.modules.get("igraph")
    if networkx is not None and isinstance(graph, networkx.Graph):
        return np.fromiter(graph, object, len(graph))
    if igraph is not None and isinstance(graph, igraph.Graph):
        named = "name" in graph.vs.attributes()
        return np.fromiter(graph.vs["name"], object, graph.vcount()) if named else None
    return None
