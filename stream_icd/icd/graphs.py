"""Whatever graph a caller holds, as the adjacency matrix the rest of the room works on."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from stream_icd.errors import BadInput, BadSettings


def as_adjacency(graph: Any) -> csr_array:
    """The adjacency matrix A of an undirected graph, `(n, n)` float64, canonical.

    A pair given twice is one edge whose weights add; self loops are dropped. When the pairs
    given are not symmetric, A + Aᵀ is taken, so that a pair given in one direction only is a
    whole edge; a symmetric matrix (both directions of every edge, as PyG writes them) is
    taken as it is.

    Args:
        graph: a square scipy sparse matrix, a NetworkX graph (nodes in its own order), a PyG
            `Data` (`edge_index`, `num_nodes`, and `edge_weight` where there is one), a pair
            `(edge_index, num_nodes)` with `edge_index` of shape `(2, n_pairs)`, or anything
            with an `adjacency()` method, such as a `Snapshot`.

    Raises:
        BadInput: a matrix that is not square, a node out of range, a weight that is negative
            or not finite.
        BadSettings: a kind of object that is none of these.

    >>> as_adjacency((np.array([[0, 1, 1], [1, 2, 2]]), 4)).toarray().tolist()
    [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    matrix = _as_matrix(graph)
    _check(matrix)
    row, column = matrix.coords
    paired = row != column
    directed = _from_pairs(row[paired], column[paired], matrix.data[paired], matrix.shape[0])
    return directed if _is_symmetric(directed) else _canonical(directed + directed.T)


def _as_matrix(graph: Any) -> coo_array:
    networkx = sys.modules.get("networkx")
    if issparse(graph):
        return coo_array(graph)
    if networkx is not None and isinstance(graph, networkx.Graph):
        return coo_array(networkx.to_scipy_sparse_array(graph, dtype=np.float64))
    if callable(getattr(graph, "adjacency", None)):
        return coo_array(graph.adjacency())
    if hasattr(graph, "edge_index") and hasattr(graph, "num_nodes"):
        weights = getattr(graph, "edge_weight", None)
        return _from_edge_index(graph.edge_index, graph.num_nodes, weights)
    if isinstance(graph, tuple) and len(graph) == 2:
        return _from_edge_index(graph[0], graph[1], None)
    raise BadSettings(
        f"a {type(graph).__name__} is no graph known here; give a scipy sparse matrix, "
        f"(edge_index, num_nodes), a NetworkX graph, a PyG Data, or an object with adjacency()"
    )


def _from_edge_index(edge_index: Any, num_nodes: Any, weights: Any) -> coo_array:
    pairs, n = np.asarray(edge_index), int(num_nodes)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise BadInput(
            f"edge_index is {pairs.dtype} of shape {pairs.shape}; it must be integers (2, n_pairs)"
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
        raise BadInput(
            f"edge_index names nodes {pairs.min()}..{pairs.max()}; num_nodes={n} allows 0..{n - 1}"
        )
    values = np.ones(pairs.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if values.shape != (pairs.shape[1],):
        raise BadInput(f"{pairs.shape[1]} pairs need one weight each; got shape {values.shape}")
    return coo_array((values, (pairs[0], pairs[1])), shape=(n, n))


def _check(matrix: coo_array) -> None:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise BadInput(f"an adjacency matrix is square; got shape {matrix.shape}")
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if bad.any():
        raise BadInput(f"edge weight {matrix.data[bad][0]} is not finite and non-negative")


def _from_pairs(
    row: NDArray[np.integer[Any]], column: NDArray[np.integer[Any]], weights: Any, n: int
) -> csr_array:
    values = np.asarray(weights, dtype=np.float64)
    return _canonical(coo_array((values, (row, column)), shape=(n, n)).tocsr())


def _canonical(matrix: csr_array) -> csr_array:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _is_symmetric(matrix: csr_array) -> bool:
    transposed = matrix.T.tocsr()
    transposed.sort_indices()
    return bool(
        np.array_equal(matrix.indptr, transposed.indptr)
        and np.array_equal(matrix.indices, transposed.indices)
        and np.array_equal(matrix.data, transposed.data)
    )
