"""Methods for single graphs of unknown K: ours, a plain grid of ours, and peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks.shared.graphs.known_graphs import ClassifiedGraph, agreement
from benchmarks.shared.peers import igraph_peers
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length
from stream_icd.registry.find import open_model

Labels = NDArray[np.int32]
Find = Callable[[ClassifiedGraph, int], Labels]
"""From a graph and a seed; only what is the best in hindsight looks at the classes."""

RESOLUTIONS = (0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Of modularity; belief propagation starts from those that are powers of two."""

LEAST_MIXING, MOST_MIXING = 0.01, 0.99


def ours(model: str = "default") -> Find:
    """A shipped model, as detectors use it."""
    parameters = open_model(model).model.bp
    return lambda graph, seed: find_communities(graph.adjacency, parameters, seed=seed)


def shortest_of_the_grid(graph: ClassifiedGraph, seed: int) -> Labels:
    """The candidate of least description length, if it is not one community; no other rule."""
    several = [one for one in candidates(graph.adjacency, seed) if one.max(initial=0)]
    if not several:
        return np.zeros(graph.adjacency.shape[0], np.int32)
    return min(several, key=lambda one: description_length(graph.adjacency, one))


def candidates(adjacency: csr_array, seed: int) -> Iterator[Labels]:
    """Modularity at several resolutions, and belief propagation from each of them."""
    for resolution in RESOLUTIONS:
        plain = find_communities(adjacency, BpParameters(resolution, iterations=3), seed=seed)
        yield plain
        if not np.log2(resolution) % 1:
            mixing = float(np.clip(mixing_of(adjacency, plain), LEAST_MIXING, MOST_MIXING))
            for spread in (1.0, 0.0):
                settings = BpParameters(resolution, mixing, size_spread=spread, iterations=1)
                yield find_communities(adjacency, settings, seed=seed)


def mixing_of(adjacency: csr_array, labels: Labels) -> float:
    """The share of the weight that is between communities."""
    edges = adjacency.tocoo()
    between = labels[edges.coords[0]] != labels[edges.coords[1]]
    return float(edges.data[between].sum() / edges.data.sum())


def leiden(graph: ClassifiedGraph, seed: int) -> Labels:
    """igraph's Leiden at resolution 1, until nothing improves."""
    return igraph_peers.leiden_at(igraph_peers.build_graph(graph.adjacency), 1.0, -1, seed)


def best_leiden(graph: ClassifiedGraph, seed: int) -> Labels:
    """The same at the resolution that is the best of the grid in hindsight."""
    built = igraph_peers.build_graph(graph.adjacency)
    found = [igraph_peers.leiden_at(built, one, -1, seed) for one in RESOLUTIONS]
    return max(found, key=lambda one: agreement(adjusted_mutual_info_score, graph, one))


def infomap(graph: ClassifiedGraph, seed: int) -> Labels:
    """igraph's, the best of ten trials."""
    return igraph_peers.infomap(igraph_peers.build_graph(graph.adjacency), 0, seed)


def scores_of(graph: ClassifiedGraph, find: Find, seed: int) -> list[float]:
    """AMI and NMI in percent, communities found, and seconds of processor time."""
    started = time.process_time()
    labels = find(graph, seed)
    spent = time.process_time() - started
    scores = [agreement(one, graph, labels) for one in (adjusted_mutual_info_score, nmi)]
    return [*scores, len(np.unique(labels)), spent]
