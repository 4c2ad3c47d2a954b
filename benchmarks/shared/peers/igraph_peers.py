"""Peers from python-igraph, which is GPL: only benchmarks import it.

All work on a graph built before time is taken, since an application may hold it already.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import igraph
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, triu

from stream_icd.interfaces.evaluation.method import CONVERT, Task
from stream_icd.interfaces.evaluation.methods.others import search_resolution

Labels = NDArray[np.int32]


def build_graph(adjacency: csr_array) -> igraph.Graph:
    """The igraph of an adjacency, with its weights."""
    upper = triu(adjacency).tocoo()
    edges = np.stack(upper.coords, axis=1)
    weights = {"weight": upper.data}
    return igraph.Graph(n=adjacency.shape[0], edges=edges.tolist(), edge_attrs=weights)


def on_igraph(run: Callable[[igraph.Graph, int | None, int], Labels]) -> Callable[[Task], Labels]:
    """A method for `Method.find` from labels of an igraph with `weight`, K and a seed."""

    def find(task: Task) -> Labels:
        with task.stage(CONVERT):
            graph = build_graph(task.adjacency)
        return run(graph, task.n_communities, task.seed)

    return find


def leiden(graph: igraph.Graph, n_communities: int, seed: int) -> Labels:
    """Leiden as it comes: resolution 1, two iterations, as many communities as it finds."""
    del n_communities
    return leiden_at(graph, 1.0, 2, seed)


def searched_leiden(graph: igraph.Graph, n_communities: int, seed: int) -> Labels:
    """Leiden with two iterations at the resolution that gives n_communities, found by bisection."""
    return _search(graph, n_communities, seed)[0]


def converged_leiden(graph: igraph.Graph, n_communities: int, seed: int) -> Labels:
    """The same search, then one run at that resolution until no iteration improves."""
    _, resolution = _search(graph, n_communities, seed)
    return leiden_at(graph, resolution, -1, seed)


def leiden_at(graph: igraph.Graph, resolution: float, iterations: int, seed: int) -> Labels:
    """Leiden at a resolution; -1 iterations: until none improves."""
    random.seed(seed)
    found = graph.community_leiden(
        objective_function="modularity",
        resolution=resolution,
        n_iterations=iterations,
        weights=_weights(graph),
    )
    return np.array(found.membership, np.int32)


def label_propagation(graph: igraph.Graph, n_communities: int, seed: int) -> Labels:
    """Label propagation, as many communities as it finds."""
    del n_communities
    random.seed(seed)
    found = graph.community_label_propagation(weights=_weights(graph))
    return np.array(found.membership, np.int32)


def infomap(graph: igraph.Graph, n_communities: int, seed: int) -> Labels:
    """Infomap, the best of ten trials, as many communities as it finds."""
    del n_communities
    random.seed(seed)
    found = graph.community_infomap(edge_weights=_weights(graph), trials=10)
    return np.array(found.membership, np.int32)


def louvain_count(graph: igraph.Graph, seed: int) -> int:
    """Louvain's number of communities: the K of graphs whose true number is unknown."""
    random.seed(seed)
    return len(graph.community_multilevel(weights=_weights(graph)))


def _search(graph: igraph.Graph, n_communities: int, seed: int) -> tuple[Labels, float]:
    return search_resolution(lambda at: leiden_at(graph, at, 2, seed), n_communities)


def _weights(graph: igraph.Graph) -> str | None:
    """The name of the weights, or None where all are 1, which igraph handles faster."""
    return "weight" if any(weight != 1 for weight in graph.es["weight"]) else None
