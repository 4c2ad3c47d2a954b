"""Z = X C: the encoder's input features, with heavy-edge matching to L supernodes.

Paper: section 4.1 and algorithm 1, and for C appendix A and algorithm 4.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Ids
from stream_icd.core.compiled import compiled
from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.icd.structure import Floats, SparsePlusRankOne, Variant, structure_matrix


def reduced_features(
    adjacency: csr_array, variant: Variant, size: int, exponent: float = -0.5
) -> SparsePlusRankOne:
    """Z = X C, `(n, L)` float32 (paper, algorithm 1), never dense; L is the `size`.

    XC of ICD-C has at most 2E entries; that of ICD-M adds a rank-one term. So graphs of any size
    have the same number of columns, and the first layer of an encoder is a sparse product.
    """
    structure = structure_matrix(adjacency, variant)
    coarsening = coarsening_matrix(structure, adjacency, size, exponent)
    return structure.times_sparse(coarsening).astype(np.float32)


def model_features(adjacency: csr_array, recipe: Recipe) -> SparsePlusRankOne:
    """Z for a recipe's encoder."""
    settings = recipe.encoder
    size, exponent = settings.n_features, settings.coarsening_exponent
    return reduced_features(adjacency, recipe.variant, size, exponent)


_MAX_PASSES, _FEWEST_PASSES, _WORK = 64, 16, 10**7
"""Limits of the matching passes; afterwards the rest is merged by degree. At most MAX_PASSES, and
fewer if the passes would visit more than WORK edges in total, but at least FEWEST_PASSES. On a
star, each pass merges only one pair. A pass halves a path or a grid, so 16 are enough for those."""


def coarsening_matrix(
    structure: SparsePlusRankOne, adjacency: csr_array, size: int, exponent: float = -0.5
) -> csr_array:
    """C, `(n, L)`: row i holds |v*|^exponent at the supernode v* that node i is merged into.

    With n ≤ L nothing is merged: C is the identity, padded with zero columns.

    Args:
        structure: X; its entries at the edges are the weights, and the heaviest edges merge first.
        size: L, the number of supernodes.
        exponent: -0.5 in the paper; the authors' scripts multiply by |v*|^+0.5.

    Raises:
        BadSettings: size below 1.
    """
    if size < 1:
        raise BadSettings(f"a graph cannot be coarsened to {size} supernodes; give 1 or more")
    supernode = supernodes(*edge_weights(structure, adjacency), adjacency.shape[0], size)
    members = np.bincount(supernode, minlength=size)
    values = members[supernode].astype(np.float64) ** exponent
    n = len(supernode)
    return csr_array((values, supernode, np.arange(n + 1)), shape=(n, size))


def edge_weights(structure: SparsePlusRankOne, adjacency: csr_array) -> tuple[Ids, Ids, Floats]:
    """Each edge once, as (i, j, X_ij) with i < j, ascending by (i, j)."""
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    upper = row < adjacency.indices
    i, j = row[upper], adjacency.indices[upper].astype(np.int64)
    weights = structure.sparse.data[upper]
    if structure.outer is not None:
        u, v = structure.outer
        weights = weights + u[i] * v[j]
    return i, j, weights


def supernodes(i: Ids, j: Ids, weights: Floats, n: int, size: int) -> Ids:
    """The supernode of each of n nodes, `(n,)`, in 0..min(n, size)-1.

    Each pass merges the two ends of the heaviest edges (ties: the larger node pair first, as in
    the authors' scripts), each node at most once. Weights of parallel edges in the merged graph
    are added. When no edge is left to merge, or at the limit of passes, the supernodes with the
    fewest edges are merged with one another, isolated nodes first, so this also ends on
    disconnected graphs.
    """
    supernode, count, passes = np.arange(n), n, 0
    n_edges = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
    most = min(_MAX_PASSES, max(_WORK // max(len(i), 1), _FEWEST_PASSES))
    while count > size and len(i) and passes < most:
        order = np.argsort(weights, kind="stable")[::-1]
        mapping, count = _match(i[order], j[order], count, size)
        i, j, weights = _contract(mapping[i], mapping[j], weights, count)
        supernode = mapping[supernode]
        passes += 1
    if count > size:
        supernode = _merge_smallest(np.bincount(supernode, n_edges), size)[supernode]
    return supernode


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
        more, kept = heap[0]
        into[node] = kept
        heapq.heapreplace(heap, (edges + more, kept))
    return into


def _contract(i: Ids, j: Ids, weights: Floats, count: int) -> tuple[Ids, Ids, Floats]:
    """Edges of the merged graph, ascending by (i, j); drops loops and adds parallel edges."""
    low, high = np.minimum(i, j), np.maximum(i, j)
    apart = low != high
    merged = csr_array((weights[apart], (low[apart], high[apart])), shape=(count, count))
    merged.sum_duplicates()
    row = np.repeat(np.arange(count), np.diff(merged.indptr))
    return row, merged.indices.astype(np.int64), merged.data
