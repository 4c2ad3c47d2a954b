"""The likelihood of a graph's edges under the planted model, one term per community.

An edge inside community c is 1 + (1 − μ)/μ · 2E/vol_c times as likely as one between communities.
With m_c edges inside each, communities raise the log likelihood by
Σ_c m_c log(1 + (1 − μ)/μ · 2E/vol_c)
(independent LFR model, Prokhorenkova and Tikhonov, WWW 2019).
"""

from __future__ import annotations

from math import lgamma, log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.graphs.compiled import compiled

Floats = NDArray[np.float64]


class Groups(NamedTuple):
    """Totals of each group of nodes, all (K,): edge weight inside, strengths, nodes."""

    within: Floats
    volumes: Floats
    sizes: Floats


@compiled()
def groups_of(graph: LevelGraph, labels: Labels, n_groups: int) -> Groups:
    """The groups of these labels, 0..n_groups-1; nodes with a negative label are in no group."""
    within, volumes, sizes = np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    for node, label in enumerate(labels):
        if label < 0:
            continue
        volumes[label] += graph.strengths[node]
        sizes[label] += 1
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            if labels[graph.indices[entry]] == label:
                within[label] += graph.weights[entry] / 2
    return Groups(within, volumes, sizes)


def modularity_of(graph: LevelGraph, labels: Labels, resolution: float = 1.0) -> float:
    """Modularity at resolution γ; labels (n,) from 0 on."""
    groups = groups_of(graph, labels, int(labels.max()) + 1)
    total = max(graph.total, 1e-300)
    return float((2 * groups.within / total - resolution * (groups.volumes / total) ** 2).sum())


@compiled(error_model="numpy")
def log_likelihood_ratio(volume: float, total: float, mixing: float) -> float:
    """Log of the factor by which an edge inside a community of this volume is more likely."""
    if volume <= 0:
        return 0.0
    return log1p((1 - mixing) / mixing * total / volume)


@compiled(error_model="numpy")
def merge_gain(
    groups: Groups, left: int, right: int, between: float, total: float, mixing: float
) -> float:
    """The gain in log likelihood, in nats, of replacing two communities by their union.

    between: weight of the edges between the two.
    """
    within, volumes = groups.within, groups.volumes
    joint = within[left] + within[right] + between
    gain: float = joint * log_likelihood_ratio(volumes[left] + volumes[right], total, mixing)
    gain -= within[left] * log_likelihood_ratio(volumes[left], total, mixing)
    gain -= within[right] * log_likelihood_ratio(volumes[right], total, mixing)
    return gain


@compiled()
def log_binomial(n_of_one: float, n_of_other: float) -> float:
    """Nats to encode which nodes are in one part and which in the other."""
    return lgamma(n_of_one + n_of_other + 1) - lgamma(n_of_one + 1) - lgamma(n_of_other + 1)


@compiled()
def label_code(n_groups: int) -> float:
    """Nats to name one of n_groups communities."""
    return log(max(n_groups, 2))
