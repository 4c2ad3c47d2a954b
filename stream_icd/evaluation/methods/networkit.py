"""Parallel Louvain and label propagation by NetworKit (MIT); both find their own K."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, triu

from stream_icd.arrays import Labels
from stream_icd.evaluation.method import CONVERT, Method, Task, module


def graph_of(adjacency: csr_array) -> Any:
    """The NetworKit graph of an adjacency, with its weights."""
    import networkit

    upper = triu(adjacency).tocoo()
    return networkit.GraphFromCoo(
        (upper.data, upper.coords), n=adjacency.shape[0], weighted=True, directed=False
    )


def _find(algorithm: Callable[[Any, Any], Any], task: Task) -> Labels:
    import networkit

    networkit.setNumberOfThreads(1)
    networkit.setSeed(task.seed, False)
    with task.stage(CONVERT):
        graph = graph_of(task.adjacency)
    partition = algorithm(networkit.community, graph).run().getPartition()
    return np.unique(partition.getVector(), return_inverse=True)[1].astype(np.int32)


def _method(algorithm: Callable[[Any, Any], Any]) -> Method:
    return Method(
        partial(_find, algorithm),
        "Staudt, Meyerhenke 2016; networkit",
        k="ignored",
        weighted=True,
        missing=module("networkit", "pip install 'stream-icd[evaluate]'"),
    )


METHODS = {
    "plm": _method(lambda community, graph: community.PLM(graph, refine=True)),  # Louvain
    "plp": _method(lambda community, graph: community.PLP(graph)),  # label propagation
}
