"""A dense matrix stored as a sparse part plus one outer product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.floating[Any]]


ROWS = 4096
"""Rows of an outer product to add at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class SparsePlusRankOne:
    """`S + u vᵀ`, `(n, m)`: the modularity matrix, and the features computed from it.

    Attributes:
        sparse: S, `(n, m)`.
        outer: `(u, v)`, of shapes `(n,)` and `(m,)`; None if the matrix is only sparse.
    """

    sparse: csr_array
    outer: tuple[Floats, Floats] | None = None

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
            for start in range(0, len(u), ROWS):  # all rows at once would double the memory
                rows = slice(start, start + ROWS)
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
