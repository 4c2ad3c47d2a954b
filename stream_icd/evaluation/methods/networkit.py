"""Parallel Louvain and label propagation by NetworKit (MIT); both find their own K."""

from __future__ import annotations

from collections.abc import Callable
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


def _find(task: Task, algorithm: Callable[[Any, Any], Any]) -> Labels:
    import networkit

    networkit.setNumberOfThreads(1)
    networkit.setSeed(task.seed, False)
    with task.stage(CONVERT):
        graph = graph_of(task.adjacency)
    partition = algorithm(networkit.community, graph).run().getPartition()
    return np.unique(partition.getVector(), return_inverse=True)[1].astype(np.int32)


def plm(task: Task) -> Labels:
    """Louvain with refinement."""
    return _find(task, lambda community, graph: community.PLM(graph, refine=True))


def plp(task: Task) -> Labels:
    """Label propagation."""
    return _find(task, lambda community, graph: community.PLP(graph))


def _method(find: Callable[[Task], Labels]) -> Method:
    return Method(
        find,
        "Staudt, Meyerhenke 2016; networkit",
        k="ignored",
        weighted=True,
        missing=module("networkit", "pip install 'stream-icd[evaluate]'"),
    )


METHODS = {"plm": _method(plm), "plp": _method(plp)}
