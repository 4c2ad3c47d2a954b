"""Ghosts: nodes that stand for the last window's communities and pull their members together.

Each remembered community becomes an extra node, joined to its present members by edges of weight
w. Local moves find the communities of this larger graph. A community that contains a ghost
continues the ghost's community; with several ghosts, the one that has most members.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.bp.naming import NOBODY
from stream_icd.graphs.compiled import compiled


class Continued(NamedTuple):
    """Communities of the present nodes, and the remembered community that each continues.

    labels:      (n,) int32, 0..K-1; some may have no present node.
    remembered:  (K,) int32, the remembered community that each continues, or `NOBODY`.
    """

    labels: Labels
    remembered: Labels


def move_with_ghosts(
    graph: LevelGraph,
    remembered: Labels,
    n_remembered: int,
    weight: float,
    resolution: float,
    rng: np.random.Generator,
    iterations: int,
) -> Continued:
    """Find communities of high modularity at this resolution, in the graph with ghosts.

    remembered: (n,) the remembered community of each node, 0..n_remembered-1, or `NOBODY`.
    weight:     w, above 0, in the unit of the graph's weights.
    """
    members = np.bincount(remembered[remembered >= 0], minlength=n_remembered)
    haunted = _with_ghosts(graph, remembered, members.astype(np.int32), weight)
    labels = maximise_modularity(haunted, resolution, rng, None, iterations)
    of_ghost = labels[graph.n_nodes :]
    continues = np.full(int(labels.max()) + 1, NOBODY, np.int32)
    by_size = np.argsort(members, kind="stable").astype(np.int32)  # the largest is written last
    continues[of_ghost[by_size]] = by_size
    return Continued(labels[: graph.n_nodes], continues)


@compiled()
def _with_ghosts(
    graph: LevelGraph, remembered: Labels, members: NDArray[np.int32], weight: float
) -> LevelGraph:
    """The graph with one extra node per remembered community after its own nodes, rows sorted."""
    n_nodes, n_ghosts = len(remembered), len(members)
    n_links = members.sum()
    indptr = np.zeros(n_nodes + n_ghosts + 1, np.int32)
    indices = np.empty(len(graph.indices) + 2 * n_links, np.int32)
    weights = np.empty(len(indices))
    strengths = np.empty(n_nodes + n_ghosts)
    for node in range(n_nodes):
        end = indptr[node]
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            indices[end], weights[end] = graph.indices[entry], graph.weights[entry]
            end += 1
        strengths[node] = graph.strengths[node]
        if remembered[node] >= 0:
            indices[end], weights[end] = n_nodes + remembered[node], weight
            strengths[node] += weight
            end += 1
        indptr[node + 1] = end
    for ghost in range(n_ghosts):
        indptr[n_nodes + ghost + 1] = indptr[n_nodes + ghost] + members[ghost]
        strengths[n_nodes + ghost] = weight * members[ghost]
    free = indptr[n_nodes:-1].copy()
    for node in range(n_nodes):
        ghost = remembered[node]
        if ghost >= 0:
            indices[free[ghost]], weights[free[ghost]] = node, weight
            free[ghost] += 1
    return LevelGraph(indptr, indices, weights, strengths, graph.total + 2 * weight * n_links)
