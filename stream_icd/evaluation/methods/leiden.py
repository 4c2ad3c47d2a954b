"""Leiden by graspologic-native (MIT): modularity, or the resolution that gives K."""

from __future__ import annotations

import numpy as np

from stream_icd.arrays import Labels
from stream_icd.evaluation.method import Method, Task, module
from stream_icd.evaluation.resolution import search_resolution

ITERATIONS = 10
"""Runs of the whole algorithm, each from the result before; few graphs improve after these."""


def find(task: Task) -> Labels:
    """Maximise modularity, or search the resolution that gives K."""
    from graspologic_native import leiden_csr

    adjacency = task.adjacency
    n_nodes = adjacency.shape[0]
    indptr = adjacency.indptr.astype(np.int64)
    indices = adjacency.indices.astype(np.int32)

    def run(resolution: float) -> Labels:
        _, found = leiden_csr(
            indptr,
            indices,
            adjacency.data,
            n_nodes,
            resolution=resolution,
            iterations=ITERATIONS,
            seed=task.seed,
        )
        labels = np.fromiter((found.get(node, -1) for node in range(n_nodes)), np.int32, n_nodes)
        alone = np.flatnonzero(labels < 0)  # nodes without edges
        labels[alone] = labels.max(initial=-1) + 1 + np.arange(len(alone))
        return labels

    if task.n_communities is None:
        return run(1.0)
    return search_resolution(run, task.n_communities).labels


METHODS = {
    "leiden": Method(
        find,
        "Traag, Waltman, van Eck 2019; graspologic-native",
        k="optional",
        weighted=True,
        missing=module("graspologic_native", "pip install 'stream-icd[evaluate]'"),
    ),
}
