"""Estimate K, the number of communities."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.bp.multilevel.level_graph import finest_level
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.graphs.weights import comparable


def estimate_n_communities(adjacency: csr_array, seed: int = 0) -> int:
    """Estimate K as the number of communities found by maximising modularity with local moves.

    The estimate is fast and needs no prior knowledge. It has modularity's resolution limit:
    communities of far fewer than √2E edges are counted together, so the estimate is too low for a
    graph of many small communities. If you know K, give it.

    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> estimate_n_communities(csr_array(np.kron(np.eye(2), triangle)))
    2
    """
    rng = np.random.default_rng(seed)
    return int(maximise_modularity(finest_level(comparable(adjacency)), 1.0, rng).max()) + 1
