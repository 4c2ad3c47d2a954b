"""Leiden by graspologic-native (MIT): modularity, or the resolution that gives K."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stream_icd.arrays import Labels
from stream_icd.evaluation.method import Method, Task, module

ITERATIONS = 10
"""Runs of the whole algorithm, each from the result before; few graphs improve after these."""

MAX_TRIALS = 20
"""Resolutions tried at most before the closest number of communities is taken."""


class Partition(NamedTuple):
    """What a search ended with."""

    labels: Labels
    resolution: float


def search_resolution(run: Callable[[float], Labels], n_communities: int) -> Partition:
    """Double or halve the resolution until K lies between two of them, then bisect.

    run: labels in 0..k-1 at a resolution; k grows with the resolution, apart from chance.
    """
    low, high, resolution = 0.0, np.inf, 1.0
    closest = Partition(np.zeros(0, np.int32), resolution)
    smallest_miss = np.inf
    for _ in range(MAX_TRIALS):
        labels = run(resolution)
        miss = int(labels.max()) + 1 - n_communities
        if abs(miss) < smallest_miss:
            closest, smallest_miss = Partition(labels, resolution), abs(miss)
        if miss == 0:
            break
        low, high = (resolution, high) if miss < 0 else (low, resolution)
        resolution = 2 * resolution if np.isinf(high) else (low + high) / 2
    return closest


def find(task: Task) -> Labels:
    """Maximise modularity, or search the resolution that gives K."""
    from graspologic_native import leiden_csr

    adjacency = task.adjacency
    n_nodes = adjacency.shape[0]
    indptr = adjacency.indptr.astype(np.int64)
    indices = adjacency.indices.astype(np.int32)

    if not adjacency.nnz:  # which it ends the process for
        return np.arange(n_nodes, dtype=np.int32)

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
