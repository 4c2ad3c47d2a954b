"""X: the structure matrix, from which features are computed and which the losses reconstruct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

Floats = NDArray[np.floating[Any]]

Variant = Literal["ICD-M", "ICD-C"]
"""Which X: the modularity matrix (ICD-M) or the normalised-cut one (ICD-C)."""

_ROWS = 4096
"""Rows of an outer product to add at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class SparsePlusRankOne:
    """`S + u vᵀ`, `(n, m)`: the modularity matrix, and the features computed from it."""

    sparse: csr_array  # S, (n, m)
    outer: tuple[Floats, Floats] | None = None  # u (n,) and v (m,); None: only sparse

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix, `(n, m)`."""
        n, m = self.sparse.shape
        return n, m

    def times_sparse(self, right: csr_array) -> SparsePlusRankOne:
        """The product with a sparse matrix `(m, k)`, in the same form; nothing dense is made."""
        sparse = (self.sparse @ right).tocsr()
        if self.outer is None:
            return SparsePlusRankOne(sparse)
        u, v = self.outer
        return SparsePlusRankOne(sparse, (u, right.T @ v))

    def times_dense(self, right: Floats) -> Floats:
        """The product with a dense matrix `(m, k)`: a sparse product and an outer one."""
        product: Floats = self.sparse @ right
        if self.outer is not None:
            u, v = self.outer
            row = v @ right
            for start in range(0, len(u), _ROWS):  # all rows at once would double the memory
                rows = slice(start, start + _ROWS)
                product[rows] += np.multiply.outer(u[rows], row)
        return product

    def astype(self, dtype: Any) -> SparsePlusRankOne:
        """The same matrix in another floating type."""
        outer = None if self.outer is None else tuple(part.astype(dtype) for part in self.outer)
        return SparsePlusRankOne(self.sparse.astype(dtype), outer)  # type: ignore[arg-type]

    def toarray(self) -> Floats:
        """The matrix as a dense array `(n, m)`: for small graphs and tests."""
        dense: Floats = self.sparse.toarray()
        return dense if self.outer is None else dense + np.multiply.outer(*self.outer)


def structure_matrix(adjacency: csr_array, variant: Variant) -> SparsePlusRankOne:
    """X, `(n, n)` (paper, section 4.1), with d the degrees, D their diagonal and 2e their sum.

    ICD-M: Q = A − d dᵀ / 2e. ICD-C: M = D^-½ A D^-½; the row of an isolated node is zero.
    """
    degrees = weighted_degrees(adjacency)
    if variant == "ICD-C":
        return SparsePlusRankOne(_scaled_both_sides(adjacency, degrees))
    scaled = degrees / np.sqrt(max(degrees.sum(), np.finfo(np.float64).tiny))
    return SparsePlusRankOne(adjacency, (-scaled, scaled))


def propagation_matrix(adjacency: csr_array) -> csr_array:
    """D̂^-½ Â D̂^-½ with Â = A + I, `(n, n)`: the matrix of one graph convolution."""
    with_loops = (adjacency + eye_array(adjacency.shape[0], format="csr")).tocsr()
    with_loops.sort_indices()
    return _scaled_both_sides(with_loops, weighted_degrees(with_loops))


def weighted_degrees(adjacency: csr_array) -> Floats:
    """Sum of the weights of each node's edges, `(n,)`."""
    return np.asarray(adjacency.sum(axis=1), dtype=np.float64)


def _scaled_both_sides(matrix: csr_array, degrees: Floats) -> csr_array:
    root = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    values = matrix.data * root[row] * root[matrix.indices]
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
