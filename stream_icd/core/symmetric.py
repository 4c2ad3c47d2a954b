"""The symmetric matrix of a graph, from its edges."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats
from stream_icd.core.compiled import compiled

_Index = TypeVar("_Index", bound=np.integer)


def symmetric(
    row: NDArray[np.integer], column: NDArray[np.integer], weights: Floats, n_nodes: int
) -> csr_array:
    """Return the symmetric matrix of entries above its diagonal, `(n_nodes, n_nodes)`, rows sorted.

    The entries are sorted by row and column, each once. So each row is sorted, if those to earlier
    nodes are given first.

    >>> symmetric(np.array([0, 1]), np.array([2, 2]), np.array([5.0, 7.0]), 3).toarray().tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 7.0], [5.0, 7.0, 0.0]]
    """
    kind = np.int32 if max(2 * len(row), n_nodes) < 1 << 31 else np.int64
    row, column = row.astype(kind, copy=False), column.astype(kind, copy=False)
    return csr_array(both_ways(row, column, weights, n_nodes), (n_nodes, n_nodes))


@compiled()
def both_ways(
    row: NDArray[_Index], column: NDArray[_Index], weights: NDArray[np.floating], n_nodes: int
) -> tuple[Floats, NDArray[_Index], NDArray[_Index]]:
    """The matrix of `symmetric` in CSR form: weights, columns and where rows begin.

    row, column: of one type, that of the result; columns are places of 0..n_nodes-1.
    """
    starts = np.zeros(n_nodes + 1, row.dtype)
    for ends in (row, column):
        for node in ends:
            starts[node + 1] += 1
    for node in range(n_nodes):
        starts[node + 1] += starts[node]
    places = starts[:-1].copy()
    columns, values = np.empty(2 * len(row), row.dtype), np.empty(2 * len(row))
    for node_of, other_of in ((column, row), (row, column)):
        for edge, weight in enumerate(weights):
            place = places[node_of[edge]]
            columns[place], values[place] = other_of[edge], weight
            places[node_of[edge]] += 1
    return values, columns, starts
