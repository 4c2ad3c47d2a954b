"""A teacher's labels, for graphs to learn from whose communities nobody knows."""

from __future__ import annotations

from stream_icd.bp.parameters import RefinedParameters
from stream_icd.bp.refine import refine
from stream_icd.graphs.labelled_graph import LabelledGraph


def taught(graph: LabelledGraph, seed: int) -> LabelledGraph:
    """The graph with its own labels, or else with those that maximise modularity."""
    if graph.labels is not None:
        return graph
    return LabelledGraph(graph.adjacency, refine(graph.adjacency, RefinedParameters(), seed=seed))
