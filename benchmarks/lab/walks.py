"""Random walks of second order (node2vec, section 3.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array


def random_walks(
    adjacency: csr_array, n_walks: int, length: int, p: float, q: float, seed: int
) -> NDArray[np.int64]:
    """Walks (n_walks · n, length) from every node in random order.

    The next node x after t → v has a probability in proportion to its weight times 1/p if x = t,
    1 if x is linked with t, and 1/q otherwise. A walk at a node without edges stays there.
    """
    rng = np.random.default_rng(seed)
    n_nodes = adjacency.shape[0]
    starts = np.concatenate([rng.permutation(n_nodes) for _ in range(n_walks)])
    cumulated = np.cumsum(adjacency.data)
    bound = max(1 / p, 1.0, 1 / q)
    pattern = adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64)
    bias = np.array([1 / p, 1.0, 1 / q]) / bound
    walks: NDArray[np.int64] = _walk(*pattern, cumulated, starts, length, bias, rng)
    return walks


@njit(cache=True)
def _walk(
    indptr: Any, indices: Any, cumulated: Any, starts: Any, length: int, bias: Any, rng: Any
) -> Any:
    """Draws by weight and rejects by the bias."""
    walks = np.empty((len(starts), length), np.int64)
    for number, start in enumerate(starts):
        before, at = -1, start
        walks[number, 0] = at
        for step in range(1, length):
            first, last = indptr[at], indptr[at + 1]
            if first == last:
                walks[number, step] = at
                continue
            while True:
                low = cumulated[first - 1] if first else 0.0
                drawn = low + rng.random() * (cumulated[last - 1] - low)
                place = min(first + np.searchsorted(cumulated[first:last], drawn), last - 1)
                following = indices[place]
                kind = _kind(indptr, indices, before, following)
                if rng.random() < bias[kind]:
                    break
            before, at = at, following
            walks[number, step] = at
    return walks


@njit(cache=True)
def _kind(indptr: Any, indices: Any, before: int, node: int) -> int:
    """0: the node before; 1: linked with it, or there is none before; 2: neither."""
    if before < 0:
        return 1
    if node == before:
        return 0
    first, last = indptr[before], indptr[before + 1]
    place = first + np.searchsorted(indices[first:last], node)
    return 1 if place < last and indices[place] == node else 2
