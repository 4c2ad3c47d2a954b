"""What the encoder `edges` computes on a graph's edges: compiled loops, one pass each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import compiled
from stream_icd.methods.icd.row_blocks import Floats32

ANY_ORDER = {"reassoc", "contract", "nsz", "arcp"}
"""Liberties of the compiler in sums of products: it may use vector instructions."""


class _Forward(NamedTuple):
    """Each edge at the end with fewer neighbours, or if both have as many, at the smaller one."""

    indptr: Labels  # (n + 1,)
    indices: Labels  # (E,): the other end
    number: Labels  # (E,): the edge


class EdgeGraph(NamedTuple):
    """A graph whose edges are numbered: each pair i < j once, ascending."""

    indptr: Labels  # (n + 1,), of the adjacency
    indices: Labels  # (2E,)
    number: Labels  # (2E,): the edge of each entry of the adjacency
    source: Labels  # (E,): i
    target: Labels  # (E,): j
    weights: Floats32  # (E,), positive
    forward: _Forward

    @classmethod
    def of(cls, adjacency: csr_array) -> EdgeGraph:
        """Number the edges of an adjacency: `(n, n)` symmetric, zero diagonal, rows ascending."""
        indptr, indices = (np.asarray(x, np.int32) for x in (adjacency.indptr, adjacency.indices))
        n_edges = len(indices) // 2
        number, source, target = (np.empty(n, np.int32) for n in (2 * n_edges, n_edges, n_edges))
        _number_edges(indptr, indices, number, source, target)
        weights = np.empty(n_edges, np.float32)
        weights[number] = adjacency.data
        forward = _turned_forward(indptr, indices, number)
        return cls(indptr, indices, number, source, target, weights, forward)

    @property
    def n_nodes(self) -> int:
        return len(self.indptr) - 1

    def strengths(self, values: Floats32) -> Floats32:
        """The sum of the values `(E,)` of each node's edges, `(n,)`."""
        # In float64: a hub adds up millions of float32 values.
        total = np.zeros(self.n_nodes)
        _add_to_ends(self.source, self.target, values, total)
        return total.astype(np.float32)

    def matrix(self, values: NDArray[np.floating]) -> csr_array:
        """The matrix `(n, n)` of values `(2E,)` in the places of the adjacency's entries."""
        return csr_array((values, self.indices, self.indptr), shape=(self.n_nodes, self.n_nodes))

    def cosines(self, hidden: Floats32, cosines: Floats32) -> None:
        """Fill `cosines`, `(E,)`: of both ends' rows of `hidden`, `(n, width)`, of length 1."""
        _scalar_products(self.source, self.target, hidden, cosines)

    def common_neighbours(self, weights: Floats32, total: Floats32) -> None:
        """Fill `total`, `(E,)`: Σ_k w_ik w_kj of each edge; `weights`: of the edges, `(E,)`."""
        _common_neighbours(self.forward, weights, total)

    def smaller_and_larger(self, of_nodes: Floats32, columns: Floats32) -> None:
        """Fill two rows of `columns`, `(2k, E)`, with a row of `of_nodes`, `(k, n)`, each."""
        _smaller_and_larger(self.source, self.target, of_nodes, columns)


@compiled()
def _add_to_ends(source: Labels, target: Labels, values: Floats32, total: Floats) -> None:
    for edge in range(len(source)):
        total[source[edge]] += values[edge]
        total[target[edge]] += values[edge]


@compiled()
def _number_edges(
    indptr: Labels, indices: Labels, number: Labels, source: Labels, target: Labels
) -> None:
    """Fill the last three. Row j meets its smaller neighbours in the order of their rows."""
    following = indptr.copy()  # where row j has its next smaller neighbour
    n_edges = 0
    for i in range(len(indptr) - 1):
        for entry in range(indptr[i], indptr[i + 1]):
            j = indices[entry]
            if i < j:
                source[n_edges], target[n_edges] = i, j
                number[entry] = number[following[j]] = n_edges
                following[j] += 1
                n_edges += 1


@compiled()
def _turned_forward(indptr: Labels, indices: Labels, number: Labels) -> _Forward:
    """Return each edge at one of its ends."""
    n_edges, most = 0, len(indices) // 2
    starts, ends = np.empty_like(indptr), np.empty(most, np.int32)
    numbers = np.empty(most, np.int32)
    for i in range(len(indptr) - 1):
        starts[i] = n_edges
        for entry in range(indptr[i], indptr[i + 1]):
            j = indices[entry]
            more = (indptr[j + 1] - indptr[j]) - (indptr[i + 1] - indptr[i])
            # At the end with fewer neighbours: a hub would be at the start of all its triangles.
            if more > 0 or (more == 0 and i < j):
                ends[n_edges], numbers[n_edges] = j, number[entry]
                n_edges += 1
    starts[-1] = n_edges
    return _Forward(starts, ends, numbers)


@compiled(fastmath=ANY_ORDER)
def _scalar_products(source: Labels, target: Labels, hidden: Floats32, products: Floats32) -> None:
    width = hidden.shape[1]
    for edge in range(len(source)):
        i, j = np.uint32(source[edge]), np.uint32(target[edge])
        total = np.float32(0)
        for column in range(width):
            total += hidden[i, column] * hidden[j, column]
        products[edge] = total


@compiled()
def _common_neighbours(forward: _Forward, weights: Floats32, total: Floats32) -> None:
    """As the method.

    Each triangle is found once, at its end that comes first in all three edges. The time grows with
    E^1.5 at most (Latapy, TCS 2008, algorithm forward); a star's with E.
    """
    starts, ends, numbers = forward
    n_nodes = len(starts) - 1
    edge_to = np.full(n_nodes, -1, np.int32)  # the edge from i to each node
    total[:] = 0
    for i in range(n_nodes):
        start, end = starts[i], starts[i + 1]
        for entry in range(start, end):
            edge_to[ends[entry]] = numbers[entry]
        for entry in range(start, end):
            j, ij = ends[entry], numbers[entry]
            for further in range(starts[j], starts[j + 1]):
                ik = edge_to[ends[further]]
                if ik >= 0:
                    jk = numbers[further]
                    total[ij] += weights[ik] * weights[jk]
                    total[ik] += weights[ij] * weights[jk]
                    total[jk] += weights[ij] * weights[ik]
        for entry in range(start, end):
            edge_to[ends[entry]] = -1


@compiled(fastmath=ANY_ORDER)
def _smaller_and_larger(
    source: Labels, target: Labels, of_nodes: Floats32, columns: Floats32
) -> None:
    for edge in range(len(source)):
        i, j = np.uint32(source[edge]), np.uint32(target[edge])
        for kind in range(len(of_nodes)):
            of_source, of_target = of_nodes[kind, i], of_nodes[kind, j]
            columns[2 * kind, edge] = min(of_source, of_target)
            columns[2 * kind + 1, edge] = max(of_source, of_target)
