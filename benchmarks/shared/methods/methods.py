"""The methods that are compared: one entry of `METHODS` each.

A method is made for a data set, so that what learns may learn there from training graphs. To add
one, add an entry here; `stream_icd.interfaces.evaluation.method.Task` is what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.graphs.data_sets import DataSet
from benchmarks.shared.peers import igraph_peers
from stream_icd.interfaces.evaluation.method import Task
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph

Labels = NDArray[np.int32]
Find = Callable[[Task], Labels]

STRONGEST_PEER = "Leiden, K searched, converged"


def ours(data_set: DataSet, n_training: int) -> Find:
    """Our bp, its parameters learned where the data set has labelled graphs."""
    parameters = learned_parameters(data_set, n_training)
    return lambda task: find_communities(
        task.adjacency, parameters, task.n_communities, seed=task.seed
    )


@cache
def learned_parameters(data_set: DataSet, n_training: int) -> BpParameters:
    """Fitted on the first training graphs; the defaults where there are none."""
    if data_set.training_graphs is None:
        return BpParameters()
    graphs = islice(data_set.training_graphs(), n_training)
    labelled = [LabelledGraph(graph.adjacency, graph.truth) for graph in graphs]
    return fit_parameters(labelled).parameters


def _peer(run: Callable[[Any, int, int], Labels]) -> Callable[[DataSet, int], Find]:
    return lambda _data_set, _n_training: igraph_peers.on_igraph(run)


METHODS: dict[str, Callable[[DataSet, int], Find]] = {
    "bp": ours,
    STRONGEST_PEER: _peer(igraph_peers.converged_leiden),
    "Leiden, K searched": _peer(igraph_peers.searched_leiden),
    "Leiden": _peer(igraph_peers.leiden),
    "label propagation": _peer(igraph_peers.label_propagation),
}
