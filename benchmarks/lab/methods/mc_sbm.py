"""MC-SBM: a degree-corrected stochastic block model by Monte Carlo, in Debian's Python."""

from __future__ import annotations

import numpy as np
from scipy.sparse import triu

from benchmarks.shared.peers import graph_tool_peer
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

MODEL: graph_tool_peer.Model = "given-k"


def find(task: Task) -> Labels:
    """Labels of least description length with K communities; a stage for the search alone."""
    edges = np.stack(triu(task.adjacency).tocoo().coords)  # (2, E)
    n_nodes = task.adjacency.shape[0]
    labels, seconds = graph_tool_peer.find(edges, n_nodes, MODEL, task.seed, task.k())
    task.stages["search"] = seconds
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def _missing() -> str | None:
    if graph_tool_peer.is_there():
        return None
    return f"needs graph-tool for {graph_tool_peer.PYTHON}: apt-get install python3-graph-tool"


METHODS = {
    "mc-sbm": EvaluatedMethod(
        find, "Peixoto 2014; graph-tool", k="needed", weighted=False, missing=_missing
    ),
}
