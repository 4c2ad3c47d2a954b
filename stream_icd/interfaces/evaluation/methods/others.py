"""Methods of other libraries, under MIT: Leiden of graspologic-native, Louvain of NetworKit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, triu

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import CONVERT, EvaluatedMethod, Task, module

_INSTALL = "pip install 'stream-icd[evaluate]'"

_ITERATIONS = 10
"""Runs of the whole algorithm, each from the result before; few graphs improve after these."""

_MAX_TRIALS = 20  # resolutions tried at most before the closest number of communities is taken


def search_resolution(run: Callable[[float], Labels], n_communities: int) -> tuple[Labels, float]:
    """Return the labels that are closest to K communities, and the resolution that gives them.

    Double or halve the resolution until K lies between two of them, then bisect.

    run: labels in 0..k-1 at a resolution; k grows with the resolution, apart from chance.
    """
    low, high, resolution = 0.0, np.inf, 1.0
    closest = np.zeros(0, np.int32), resolution
    smallest_miss = np.inf
    for _ in range(_MAX_TRIALS):
        labels = run(resolution)
        miss = int(labels.max()) + 1 - n_communities
        if abs(miss) < smallest_miss:
            closest, smallest_miss = (labels, resolution), abs(miss)
        if miss == 0:
            break
        low, high = (resolution, high) if miss < 0 else (low, resolution)
        resolution = 2 * resolution if np.isinf(high) else (low + high) / 2
    return closest


def _leiden(task: Task) -> Labels:
    """Maximise modularity, or search the resolution that gives K."""
    from graspologic_native import leiden_csr

    adjacency = task.adjacency
    n_nodes = adjacency.shape[0]
    indptr = adjacency.indptr.astype(np.int64)
    indices = adjacency.indices.astype(np.int32)

    if not adjacency.nnz:  # which it ends the process for
        return np.arange(n_nodes, dtype=np.int32)

    def run(resolution: float) -> Labels:
        _, label_of = leiden_csr(
            indptr,
            indices,
            adjacency.data,
            n_nodes,
            resolution=resolution,
            iterations=_ITERATIONS,
            seed=task.seed,
        )
        of_nodes = (label_of.get(node, -1) for node in range(n_nodes))
        labels = np.fromiter(of_nodes, np.int32, n_nodes)
        alone = np.flatnonzero(labels < 0)  # nodes without edges
        labels[alone] = labels.max(initial=-1) + 1 + np.arange(len(alone))
        return labels

    if task.n_communities is None:
        return run(1.0)
    return search_resolution(run, task.n_communities)[0]


def networkit_graph(adjacency: csr_array) -> Any:
    """The NetworKit graph of an adjacency, with its weights."""
    import networkit

    upper = triu(adjacency).tocoo()
    return networkit.GraphFromCoo(
        (upper.data, upper.coords), n=adjacency.shape[0], weighted=True, directed=False
    )


def _by_networkit(algorithm: Callable[[Any, Any], Any], task: Task) -> Labels:
    import networkit

    networkit.setNumberOfThreads(1)  # else processor time is not that on an idle core
    networkit.setSeed(task.seed, False)
    with task.stage(CONVERT):
        graph = networkit_graph(task.adjacency)
    partition = algorithm(networkit.community, graph).run().getPartition()
    return np.unique(partition.getVector(), return_inverse=True)[1].astype(np.int32)


def _of_networkit(algorithm: Callable[[Any, Any], Any]) -> EvaluatedMethod:
    return EvaluatedMethod(
        partial(_by_networkit, algorithm),
        "Staudt, Meyerhenke 2016; networkit",
        k="ignored",
        weighted=True,
        missing=module("networkit", _INSTALL),
    )


METHODS = {
    "leiden": EvaluatedMethod(
        _leiden,
        "Traag, Waltman, van Eck 2019; graspologic-native",
        k="optional",
        weighted=True,
        missing=module("graspologic_native", _INSTALL),
    ),
    "plm": _of_networkit(lambda community, graph: community.PLM(graph, refine=True)),  # Louvain
    "plp": _of_networkit(lambda community, graph: community.PLP(graph)),  # label propagation
}
