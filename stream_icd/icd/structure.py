"""X: the structure matrix, from which features are computed and which the losses reconstruct."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from stream_icd.icd.sparse_plus_rank_one import Floats, SparsePlusRankOne

Variant = Literal["ICD-M", "ICD-C"]
"""Which X: the modularity matrix (ICD-M) or the normalised-cut one (ICD-C)."""


def structure_matrix(adjacency: csr_array, variant: Variant) -> SparsePlusRankOne:
    """X, `(n, n)`: Q for ICD-M, M for ICD-C (paper, section 4.1)."""
    return modularity_matrix(adjacency) if variant == "ICD-M" else normalised_matrix(adjacency)


def modularity_matrix(adjacency: csr_array) -> SparsePlusRankOne:
    """Q = A − d dᵀ / 2e, with d the degrees and 2e their sum: sparse plus rank one."""
    degrees = weighted_degrees(adjacency)
    scaled = degrees / np.sqrt(max(degrees.sum(), np.finfo(np.float64).tiny))
    return SparsePlusRankOne(adjacency, (-scaled, scaled))


def normalised_matrix(adjacency: csr_array) -> SparsePlusRankOne:
    """M = D^-½ A D^-½; the row of an isolated node is zero."""
    return SparsePlusRankOne(_scaled_both_sides(adjacency, weighted_degrees(adjacency)))


def propagation_matrix(adjacency: csr_array) -> csr_array:
    """D̂^-½ Â D̂^-½ with Â = A + I, `(n, n)`: the matrix of one graph convolution."""
    with_loops = (adjacency + _identity(adjacency.shape[0])).tocsr()
    with_loops.sort_indices()
    return _scaled_both_sides(with_loops, weighted_degrees(with_loops))


def weighted_degrees(adjacency: csr_array) -> Floats:
    """Sum of the weights of each node's edges, `(n,)`."""
    return np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()


def _scaled_both_sides(matrix: csr_array, degrees: Floats) -> csr_array:
    root = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    values = matrix.data * root[row] * root[matrix.indices]
    return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _identity(n: int) -> csr_array:
    return csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
