"""Other people's methods for a sequence of graphs.

`nodes` are the numbers of the nodes of each graph, the same in all of them, and ascending; left out
where all graphs have the same nodes.

leidenalg (GPL) and tnetwork are optional: they are imported where they run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Labels = NDArray[np.int32]
Nodes = Sequence[NDArray[np.int64]]

MOST_PASSES = 50
"""Passes of label propagation over the nodes, in each window."""


def multilayer_leiden(
    adjacencies: Sequence[csr_array], weight: float, seed: int, nodes: Nodes | None = None
) -> list[Labels]:
    """Multilayer modularity at resolution 1 by leidenalg, which sees all windows at once.

    weight: of the links of each node to itself in the windows before and after, in mean edge
        weights.
    """
    import leidenalg

    from benchmarks.shared.peers.igraph_peers import build_graph

    mean_weight = float(np.concatenate([adjacency.data for adjacency in adjacencies]).mean())
    graphs = [build_graph(adjacency) for adjacency in adjacencies]
    for graph, numbers in zip(graphs, _numbers(adjacencies, nodes), strict=True):
        graph.vs["id"] = numbers.tolist()
    found, _ = leidenalg.find_partition_temporal(
        graphs,
        leidenalg.RBConfigurationVertexPartition,
        vertex_id_attr="id",
        interslice_weight=weight * mean_weight,
        resolution_parameter=1.0,
        seed=seed,
    )
    return [np.array(labels, np.int32) for labels in found]


def smoothed_louvain(adjacencies: Sequence[csr_array], nodes: Nodes | None = None) -> list[Labels]:
    """tnetwork's Louvain, started in each window from the communities of the window before."""
    import networkx as nx
    import tnetwork

    numbers = _numbers(adjacencies, nodes)
    windows = [
        nx.relabel_nodes(nx.from_scipy_sparse_array(one), dict(enumerate(of_window.tolist())))
        for one, of_window in zip(adjacencies, numbers, strict=True)
    ]
    dynamic = tnetwork.DynGraphSN(windows)
    found = tnetwork.DCD.smoothed_louvain(dynamic)
    return [_labels(found.communities(at), of_window) for at, of_window in enumerate(numbers)]


def _numbers(adjacencies: Sequence[csr_array], nodes: Nodes | None) -> Nodes:
    return nodes or [np.arange(adjacency.shape[0]) for adjacency in adjacencies]


def label_propagation(adjacencies: Sequence[csr_array], seed: int) -> list[Labels]:
    """Label propagation that starts in each window from the labels of the window before."""
    rng = np.random.default_rng(seed)
    labels, found = np.arange(adjacencies[0].shape[0]), []
    for adjacency in adjacencies:
        for _ in range(MOST_PASSES):
            if not _propagate(adjacency, labels, rng):
                break
        found.append(np.unique(labels, return_inverse=True)[1].astype(np.int32))
    return found


def _propagate(adjacency: csr_array, labels: NDArray[np.int64], rng: np.random.Generator) -> int:
    """Give each node, in random order, the label of most of its neighbours; ties keep its own."""
    n_changed = 0
    for node in rng.permutation(len(labels)):
        around = labels[adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]]
        if len(around):
            names, counts = np.unique(around, return_counts=True)
            best = names[counts == counts.max()]
            if labels[node] not in best:
                labels[node] = rng.choice(best)
                n_changed += 1
    return n_changed


def _labels(communities: dict[object, set[int]], numbers: NDArray[np.int64]) -> Labels:
    labels = np.full(len(numbers), -1, np.int32)
    for number, members in enumerate(communities.values()):
        labels[np.searchsorted(numbers, list(members))] = number
    alone = labels < 0
    labels[alone] = len(communities) + np.arange(alone.sum())
    return labels
