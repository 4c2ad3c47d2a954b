"""The methods that are compared: one entry of `METHODS` each.

A method is made for a data set, so that what learns may learn there from training graphs. What it
`prepare`s from an adjacency is not timed (a graph object that an application holds anyway), its
`run` is. To add one, add an entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.shared.graphs.data_sets import DataSet
from benchmarks.shared.peers import igraph_peers
from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.training.bp.fit import fit_parameters

Labels = NDArray[np.int32]

STRONGEST_PEER = "Leiden, K searched, converged"


@dataclass(frozen=True)
class Method:
    """How to run a method: `run(prepare(adjacency), n_communities, seed)` is labels (n,)."""

    run: Callable[[Any, int, int], Labels]
    prepare: Callable[[csr_array], Any]
    note: str = ""


def bp(data_set: DataSet, n_training: int) -> Method:
    """Our bp, its parameters learned where the data set has labelled graphs."""
    parameters = learned_parameters(data_set, n_training)

    def run(adjacency: csr_array, n_communities: int, seed: int) -> Labels:
        return find_communities(adjacency, parameters, n_communities, seed=seed)

    return Method(run, prepare=lambda adjacency: adjacency, note=str(parameters))


@cache
def learned_parameters(data_set: DataSet, n_training: int) -> BpParameters:
    """Fitted on the first training graphs; the defaults where there are none."""
    if data_set.training_graphs is None:
        return BpParameters()
    graphs = islice(data_set.training_graphs(), n_training)
    labelled = [LabelledGraph(graph.adjacency, graph.truth) for graph in graphs]
    return fit_parameters(labelled).parameters


def _peer(run: Callable[[Any, int, int], Labels]) -> Callable[[DataSet, int], Method]:
    return lambda _data_set, _n_training: Method(run, igraph_peers.build_graph)


METHODS: dict[str, Callable[[DataSet, int], Method]] = {
    "bp": bp,
    STRONGEST_PEER: _peer(igraph_peers.converged_leiden),
    "Leiden, K searched": _peer(igraph_peers.searched_leiden),
    "Leiden": _peer(igraph_peers.leiden),
    "label propagation": _peer(igraph_peers.label_propagation),
}
