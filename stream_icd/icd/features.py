"""Z: the encoder's input features of a graph."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.icd.coarsening import coarsening_matrix
from stream_icd.icd.recipe import Recipe
from stream_icd.icd.structure import SparsePlusRankOne, Variant, structure_matrix


def reduced_features(
    adjacency: csr_array, variant: Variant, size: int, exponent: float = -0.5
) -> SparsePlusRankOne:
    """Z = X C, `(n, L)` float32 (paper, eq. 5), never dense; L is the `size`.

    XC of ICD-C has at most 2E entries; that of ICD-M adds a rank-one term. So graphs of any size
    have the same number of columns, and the first layer of an encoder is a sparse product.

    Args:
        adjacency: the graph, `(n, n)`, canonical.
        exponent: of |v*| in the coarsening matrix; see `coarsening_matrix`.
    """
    structure = structure_matrix(adjacency, variant)
    coarsening = coarsening_matrix(structure, adjacency, size, exponent)
    return structure.times_sparse(coarsening).astype(np.float32)


def model_features(adjacency: csr_array, recipe: Recipe) -> SparsePlusRankOne:
    """Z for a recipe's encoder."""
    settings = recipe.encoder
    size, exponent = settings.n_features, settings.coarsening_exponent
    return reduced_features(adjacency, recipe.variant, size, exponent)
