"""The nodes of a graph that have an edge: those that can be embedded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Nodes = NDArray[np.intp]


def linked_nodes(adjacency: csr_array) -> Nodes:
    """Positions of the nodes with at least one edge, ascending."""
    return np.flatnonzero(np.diff(adjacency.indptr))


def among(adjacency: csr_array, nodes: Nodes) -> csr_array:
    """The subgraph of `nodes`, ascending: all nodes with edges (`linked_nodes`), or more.

    Every entry's column is one of them, so columns are renumbered without a search.
    """
    n_nodes = len(nodes)
    if n_nodes == adjacency.shape[0]:
        return adjacency
    place = np.zeros(adjacency.shape[0], adjacency.indices.dtype)
    place[nodes] = np.arange(n_nodes)
    starts = adjacency.indptr[np.append(nodes, adjacency.shape[0])]
    return csr_array((adjacency.data, place[adjacency.indices], starts), (n_nodes, n_nodes))
