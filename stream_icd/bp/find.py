"""Communities of one graph: local moves on all scales, belief propagation, exactly K."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.bp.description_length.exact_k import exactly
from stream_icd.bp.description_length.partition import Partition, finest, measured
from stream_icd.bp.description_length.search import least_description
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, compact, finest_level
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.planted_partition.belief_propagation import Model, likeliest_communities
from stream_icd.communities import check_n_communities
from stream_icd.errors import BadSettings
from stream_icd.graphs.in_threads import keep_threads, threads_for
from stream_icd.graphs.weights import comparable


def find_communities(
    adjacency: csr_array,
    parameters: BpParameters,
    n_communities: int | None = None,
    start: Labels | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Labels:
    """The communities of a graph: labels (n,) int32, 0..K-1, none empty.

    adjacency:     (n, n) symmetric, positive weights, zero diagonal, sorted rows. Their unit does
                   not matter; see `comparable`.
    n_communities: K, 1..n: return exactly K communities. None: as many as are found.
    start:         (n,) the initial partition, such as one of an embedding; None: single nodes.
    seed:          equal seeds give equal results, on any number of threads.
    threads:       how many work on a graph of at least 50,000 nodes.

    Raises `BadSettings` for a K outside 1..n or a start of another length, and `BadInput` for a
    weight that is not positive and finite.

    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> two = csr_array(np.kron(np.eye(2), triangle))
    >>> find_communities(two, BpParameters()).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    n_nodes = adjacency.shape[0]
    check_n_communities(n_communities, n_nodes)
    if start is not None and start.shape != (n_nodes,):
        raise BadSettings(
            f"start must have shape ({n_nodes},), one label a node, not {start.shape}"
        )
    if n_nodes == 0:
        return np.empty(0, np.int32)
    graph = finest_level(comparable(adjacency, parameters.weight_exponent))
    rng = np.random.default_rng(seed)
    return found_exactly(graph, parameters, n_communities, start, rng, threads).labels


def found_exactly(
    graph: LevelGraph,
    parameters: BpParameters,
    n_communities: int | None,
    start: Labels | None,
    rng: np.random.Generator,
    threads: int = 1,
) -> Partition:
    """`find_communities` for a graph of at least one node, without rescaling its weights."""
    threads = threads_for(graph.n_nodes, threads)
    if start is not None:
        start, _ = compact(np.unique(start, return_inverse=True)[1].astype(np.int32))
    with keep_threads(threads):
        if parameters.search:
            return least_description(graph, start, parameters.sweeps, rng, n_communities, threads)
        resolution = parameters.resolution
        labels = maximise_modularity(graph, resolution, rng, start, parameters.iterations, threads)
        believed = parameters.mixing is not None
        if parameters.mixing is not None:
            k = int(labels.max()) + 1
            model = Model(parameters.mixing, parameters.size_spread, n_communities or k)
            labels = likeliest_communities(graph, labels, k, model, parameters.sweeps, threads)
        if n_communities is not None:
            labels = exactly(graph, labels, n_communities, resolution, rng, believed)
        return measured(finest(graph), labels, resolution)._replace(believed=believed)
