"""Graphs that the tests of bp are about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import block_diag, coo_array, csr_array

from stream_icd.core.arrays import Labels
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph


def lfr(seed: int, n_nodes: int = 5000, mixing: float = 0.3) -> PlantedGraph:
    return generate_lfr(np.random.default_rng(seed), LfrSettings(n_nodes=n_nodes, mixing=mixing))


def graph_of(n_nodes: int, pairs: np.ndarray, weights: float | np.ndarray) -> csr_array:
    """The graph of these pairs, (2, E), without loops; weights of a repeated one add."""
    apart = pairs[0] != pairs[1]
    of_pairs = np.broadcast_to(weights, pairs.shape[1])[apart]
    half = coo_array((of_pairs, tuple(pairs[:, apart])), (n_nodes, n_nodes))
    adjacency = (half + half.T).tocsr()
    adjacency.sort_indices()
    return adjacency


def cliques(*sizes: int, links: Sequence[tuple[int, int]] = ()) -> csr_array:
    """Cliques of these sizes, one after the other, and more edges."""
    dense = block_diag([np.ones((size, size)) - np.eye(size) for size in sizes]).toarray()
    for one, other in links:
        dense[one, other] = dense[other, one] = 1.0
    return csr_array(dense)


def labels_of(*sizes: int) -> Labels:
    """The communities 0, 1, ... of these sizes, one after the other."""
    return np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)


def shuffled(adjacency: csr_array, order: np.ndarray) -> csr_array:
    """The same graph with its nodes in this order."""
    found = csr_array(adjacency[order][:, order])
    found.sort_indices()
    return found


def padded(adjacency: csr_array, n_nodes: int) -> csr_array:
    """The same graph with nodes without edges after its own."""
    found = csr_array(adjacency)
    found.resize((n_nodes, n_nodes))
    return found
