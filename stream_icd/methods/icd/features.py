"""X and Z = X C: the structure of a graph, and the encoder's input features.

Z is X with its columns summed over L supernodes, by heavy-edge matching. Paper: section 4.1 and
algorithm 1, and for C appendix A and algorithm 4.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from stream_icd.core.arrays import Ids
from stream_icd.core.compiled import compiled
from stream_icd.methods.icd.recipe import Recipe, Variant

_Floats = NDArray[np.floating[Any]]

_ROWS = 4096
"""Rows of an outer product to add at a time."""

_MAX_PASSES, _FEWEST_PASSES, _WORK = 64, 16, 10**7
"""Limits of the matching passes; afterwards the rest is merged by degree. At most MAX_PASSES, and
fewer if the passes would visit more than WORK edges in total, but at least FEWEST_PASSES. On a
star, each pass merges only one pair. A pass halves a path or a grid, so 16 are enough for those."""


@dataclass(frozen=True, slots=True, eq=False)
class SparsePlusRankOne:
    """`S + u vᵀ`, `(n, m)`: the modularity matrix, and the features computed from it."""

    sparse: csr_array  # S, (n, m)
    outer: tuple[_Floats, _Floats] | None = None  # u (n,) and v (m,); None: only sparse

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.sparse.shape
        return n, m

    def times_sparse(self, right: csr_array) -> SparsePlusRankOne:
        """The product with a sparse matrix `(m, k)`, in the same form; nothing dense is made."""
        sparse = (self.sparse @ right).tocsr()
        if self.outer is None:
            return SparsePlusRankOne(sparse)
        u, v = self.outer
        return SparsePlusRankOne(sparse, (u, right.T @ v))

    def times_dense(self, right: _Floats) -> _Floats:
        """The product with a dense matrix `(m, k)`: a sparse product and an outer one."""
        product: _Floats = self.sparse @ right
        if self.outer is not None:
            u, v = self.outer
            row = v @ right
            for start in range(0, len(u), _ROWS):  # all rows at once would double the memory
                rows = slice(start, start + _ROWS)
                product[rows] += np.multiply.outer(u[rows], row)
        return product

    def astype(self, dtype: Any) -> SparsePlusRankOne:
        outer = None if self.outer is None else tuple(part.astype(dtype) for part in self.outer)
        return SparsePlusRankOne(self.sparse.astype(dtype), outer)  # type: ignore[arg-type]

    def toarray(self) -> _Floats:
        """The matrix as a dense array `(n, m)`: for small graphs and tests."""
        dense: _Floats = self.sparse.toarray()
        return dense if self.outer is None else dense + np.multiply.outer(*self.outer)


def structure_matrix(adjacency: csr_array, variant: Variant) -> SparsePlusRankOne:
    """X, `(n, n)` (paper, section 4.1), with d the degrees, D their diagonal and 2e their sum.

    ICD-M: Q = A − d dᵀ / 2e. ICD-C: M = D^-½ A D^-½; the row of an isolated node is zero.
    """
    degrees = adjacency.sum(axis=1, dtype=np.float64)
    if variant == "ICD-C":
        return SparsePlusRankOne(_scaled_both_sides(adjacency, degrees))
    # Shared by both factors, so that neither overflows; a graph without edges divides by no 0.
    scaled = degrees / np.sqrt(max(degrees.sum(), np.finfo(np.float64).tiny))
    return SparsePlusRankOne(adjacency, (-scaled, scaled))


def propagation_matrix(adjacency: csr_array) -> csr_array:
    """D̂^-½ Â D̂^-½ with Â = A + I, `(n, n)`: the matrix of one graph convolution."""
    with_loops = (adjacency + eye_array(adjacency.shape[0], format="csr")).tocsr()
    with_loops.sort_indices()
    return _scaled_both_sides(with_loops, with_loops.sum(axis=1, dtype=np.float64))


def model_features(adjacency: csr_array, recipe: Recipe) -> SparsePlusRankOne:
    """Z = X C for a recipe's encoder, `(n, L)` float32 (paper, algorithm 1), never dense.

    XC of ICD-C has at most 2E entries; that of ICD-M adds a rank-one term. So graphs of any size
    have the same number of columns, and the first layer of an encoder is a sparse product.
    """
    settings, structure = recipe.encoder, structure_matrix(adjacency, recipe.variant)
    coarsening = _coarsening_matrix(
        structure, adjacency, settings.n_features, settings.coarsening_exponent
    )
    # Rounded only now: sums of thousands of products would lose digits in float32.
    return structure.times_sparse(coarsening).astype(np.float32)


def _coarsening_matrix(
    structure: SparsePlusRankOne, adjacency: csr_array, size: int, exponent: float
) -> csr_array:
    """C, `(n, L)`: row i holds |v*|^exponent at the supernode v* that node i is merged into.

    With n ≤ L nothing is merged: C is the identity, padded with zero columns. The exponent is -0.5
    in the paper; the authors' scripts multiply by |v*|^+0.5.
    """
    supernode = _supernodes(structure, adjacency, size)
    values = np.bincount(supernode, minlength=size)[supernode].astype(np.float64) ** exponent
    n = len(supernode)
    return csr_array((values, supernode, np.arange(n + 1)), shape=(n, size))


def _supernodes(structure: SparsePlusRankOne, adjacency: csr_array, size: int) -> Ids:
    """The supernode of each of n nodes, `(n,)`, in 0..min(n, size)-1.

    Each pass merges the two ends of the heaviest edges by X_ij (ties: the larger node pair first,
    as in the authors' scripts), each node at most once. Weights of parallel edges in the merged
    graph are added. When no edge is left to merge, or at the limit of passes, the supernodes with
    the fewest edges are merged with one another, isolated nodes first, so this also ends on
    disconnected graphs.
    """
    i, j, weights = _edge_weights(structure, adjacency)
    count = n = adjacency.shape[0]
    supernode, passes = np.arange(n), 0
    n_edges = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
    most = min(_MAX_PASSES, max(_WORK // max(len(i), 1), _FEWEST_PASSES))
    while count > size and len(i) and passes < most:
        # Reversed only after a stable sort: of equal weights, the larger pair comes first.
        order = np.argsort(weights, kind="stable")[::-1]
        mapping, count = _match(i[order], j[order], count, size)
        i, j, weights = _contract(mapping[i], mapping[j], weights, count)
        supernode = mapping[supernode]
        passes += 1
    if count > size:
        supernode = _merge_smallest(np.bincount(supernode, n_edges), size)[supernode]
    return supernode


def _edge_weights(structure: SparsePlusRankOne, adjacency: csr_array) -> tuple[Ids, Ids, _Floats]:
    """Each edge once, as (i, j, X_ij) with i < j, ascending by (i, j)."""
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    upper = row < adjacency.indices
    i, j = row[upper], adjacency.indices[upper].astype(np.int64)
    weights = structure.sparse.data[upper]
    if structure.outer is not None:
        u, v = structure.outer
        weights = weights + u[i] * v[j]
    return i, j, weights


@compiled()
def _match(i: Any, j: Any, count: int, size: int) -> Any:
    """One matching over edges sorted by weight: new id of each supernode, and their number."""
    mapping = np.full(count, -1, np.int64)
    merged = 0
    for edge in range(len(i)):
        if count - merged == size:
            break
        if mapping[i[edge]] < 0 and mapping[j[edge]] < 0:
            mapping[i[edge]] = mapping[j[edge]] = merged
            merged += 1
    following = merged
    for node in range(count):
        if mapping[node] < 0:
            mapping[node] = following
            following += 1
    return mapping, following


def _merge_smallest(n_edges: NDArray[Any], size: int) -> Ids:
    """Merge the two supernodes with the fewest edges until `size` are left: new id of each."""
    into = _merged_into(n_edges.astype(np.int64), size)
    while (into != into[into]).any():
        into = into[into]
    new_id: Ids = np.cumsum(into == np.arange(len(into)))[into] - 1
    return new_id


@compiled()
def _merged_into(n_edges: Any, size: int) -> Any:
    """The supernode that each is merged into; itself if it is not merged."""
    heap = [(edges, node) for node, edges in enumerate(n_edges)]
    heapq.heapify(heap)
    into = np.arange(len(n_edges))
    while len(heap) > size:
        edges, node = heapq.heappop(heap)
        more, survivor = heap[0]
        into[node] = survivor
        heapq.heapreplace(heap, (edges + more, survivor))
    return into


def _contract(i: Ids, j: Ids, weights: _Floats, count: int) -> tuple[Ids, Ids, _Floats]:
    """Edges of the merged graph, ascending by (i, j); drops loops and adds parallel edges."""
    low, high = np.minimum(i, j), np.maximum(i, j)
    apart = low != high
    merged = csr_array((weights[apart], (low[apart], high[apart])), shape=(count, count))
    merged.sum_duplicates()
    row = np.repeat(np.arange(count), np.diff(merged.indptr))
    return row, merged.indices.astype(np.int64), merged.data


def _scaled_both_sides(matrix: csr_array, degrees: _Floats) -> csr_array:
    root = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    values = matrix.data * root[row] * root[matrix.indices]
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
