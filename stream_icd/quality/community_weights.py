"""The two sums per community from which modularity and NCut are computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from stream_icd.errors import BadSettings
from stream_icd.quality.labels import Communities, compact


class CommunityWeights(NamedTuple):
    """Sums over each community's nodes, both (K,) float64; their difference is its cut."""

    volume: NDArray[np.float64]  # of the degrees
    within: NDArray[np.float64]  # of the weights inside, each edge from both of its ends


def community_weights(adjacency: csr_array, communities: Communities) -> CommunityWeights:
    """Volume and inside weight of each community, in time and memory O(E).

    If the sum of the weights would overflow, all are first divided by one power of two: the metrics
    computed from these sums do not depend on the weights' unit.

    adjacency: (n, n) symmetric, non-negative weights; communities: integer labels (n,), any values.

    Raises `BadSettings` where the two do not fit each other.
    """
    if not issparse(adjacency) or adjacency.format != "csr":
        raise BadSettings(f"adjacency must be a sparse CSR array, not {type(adjacency).__name__}")
    labels = compact(communities)
    if adjacency.shape != (len(labels), len(labels)):
        raise BadSettings(
            f"{len(labels)} communities' labels need an adjacency of as many rows and columns, "
            f"not {adjacency.shape}"
        )
    sources = np.repeat(labels, np.diff(adjacency.indptr))  # (2E,)
    weights = _that_add_up(adjacency.data)
    inside = sources == labels[adjacency.indices]
    n_communities = int(labels.max(initial=-1)) + 1
    volume = np.bincount(sources, weights, n_communities).astype(np.float64)
    within = np.bincount(sources[inside], weights[inside], n_communities)
    return CommunityWeights(volume, within.astype(np.float64))


def _that_add_up(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, multiplied by 2^-100 if twice their sum would overflow."""
    with np.errstate(over="ignore"):
        adds_up = np.isfinite(2 * weights.sum())
    return weights if adds_up else np.ldexp(weights, -100)
