"""Pseudo-labels for training graphs without known communities."""

from __future__ import annotations

from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.graphs.labelled_graph import LabelledGraph


def pseudo_labelled(graph: LabelledGraph, seed: int) -> LabelledGraph:
    """The graph with its own labels or, without any, labels that maximise modularity."""
    if graph.labels is not None:
        return graph
    return LabelledGraph(
        graph.adjacency, find_communities(graph.adjacency, BpParameters(), seed=seed), graph.moment
    )
