"""Hidden edges: how well communities predict held-out edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import AnyLabels, Floats, compact
from stream_icd.core.errors import BadSettings
from stream_icd.core.symmetric import symmetric
from stream_icd.methods.quality.partition import CommunityWeights

_SPLITS = 2
"""Number of tenths of the edges that `mean_hidden_edge_score` hides, one after the other."""

_HALVINGS = 40
"""Steps of the bisection for μ, which leave an error of 1e-12."""


@dataclass(frozen=True, slots=True, eq=False)
class HiddenEdges:
    """A graph with some of its edges hidden."""

    visible: csr_array  # the other edges, (n, n)
    ends: NDArray[np.int32]  # (2, n_hidden)
    weights: Floats  # (n_hidden,)

    def score(self, communities: AnyLabels) -> float:
        """How well communities found on the visible edges predict the hidden ones, bits per edge.

        The mean, over the hidden edges, of log₂(μ + [same community] (1 − μ) 2E / vol_c): how much
        more likely each edge is under the planted model (see `description_length`) than without
        communities. vol_c and 2E are those of the visible edges. The mixing μ maximises the score,
        so the score is never below 0, and a single community has 0. Edges count by their weight;
        edges with an end that has no visible edge are ignored. A graph without edges has 0.

        The idea is cross-validation of a block model by link prediction (such as Kawamoto and
        Kabashima, "Cross-validation estimate of the number of clusters in a network", 2017).

        >>> graph = csr_array(np.kron(np.eye(4), np.ones((9, 9)) - np.eye(9)))
        >>> [round(one.score(np.arange(36) // 9)) for one in hide_edges(graph, parts=2)]
        [2, 2]
        """
        volume, _ = CommunityWeights.of(self.visible, communities)
        labels, total = compact(communities), volume.sum()
        seen = (np.diff(self.visible.indptr) > 0)[self.ends].all(axis=0)
        weights = self.weights[seen]
        if not weights.size:
            return 0.0
        left, right = labels[self.ends[:, seen]]
        lift = np.where(left == right, total / np.where(volume > 0, volume, total)[left], 0.0)
        mixing = _best_mixing(lift, weights)
        return float(np.average(np.log2(mixing + (1 - mixing) * lift), weights=weights))


def hide_edges(
    adjacency: csr_array, seed: int | np.random.Generator = 0, parts: int = 10
) -> Iterator[HiddenEdges]:
    """Split the edges into random parts of equal size, and hide each part in turn.

    adjacency: (n, n) symmetric, zero diagonal.

    Raises `BadSettings` for fewer than 2 parts.

    >>> graph = csr_array(np.ones((5, 5)) - np.eye(5))
    >>> [len(hidden.weights) for hidden in hide_edges(graph, parts=5)]
    [2, 2, 2, 2, 2]
    """
    if parts < 2:
        raise BadSettings(f"parts={parts}; hiding all edges leaves nothing to find: give 2 or more")
    rows = np.repeat(np.arange(adjacency.shape[0], dtype=np.int32), np.diff(adjacency.indptr))
    upper = np.flatnonzero((rows < adjacency.indices) & (adjacency.data > 0))
    ends = np.stack([rows[upper], adjacency.indices[upper]]).astype(np.int32)  # (2, E)
    weights = np.asarray(adjacency.data[upper], np.float64)
    part = np.random.default_rng(seed).permutation(len(upper)) % parts
    for number in range(parts):
        hidden = part == number
        row, column = ends[:, ~hidden]
        visible = symmetric(row, column, weights[~hidden], adjacency.shape[0])
        yield HiddenEdges(visible, ends[:, hidden], weights[hidden])


def mean_hidden_edge_score(
    adjacency: csr_array, find: Callable[[csr_array], AnyLabels | None], seed: int = 0
) -> float | None:
    """The mean score of what `find` makes of the visible edges; None if it finds nothing once."""
    scores = []
    for hidden in islice(hide_edges(adjacency, seed), _SPLITS):
        communities = find(hidden.visible)
        if communities is None:
            return None
        scores.append(hidden.score(communities))
    return float(np.mean(scores))


def _best_mixing(lift: Floats, weights: Floats) -> float:
    """The μ in 0..1 that maximises Σ w log(μ + (1 − μ) lift), which is concave: by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        slope = (weights * (1 - lift) / (middle + (1 - middle) * lift)).sum()
        low, high = (middle, high) if slope > 0 else (low, middle)
    return high
