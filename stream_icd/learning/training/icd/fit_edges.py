"""Fit the encoder `edges` to past graphs, with labels or with what bp finds in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.icd.learn_edges import LearnedEdges, learn_edges
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe


def last_tenth(n_graphs: int) -> int:
    """How many of these graphs validate: the last tenth, at least one."""
    return max(1, round(n_graphs / 10))


def fit_edges(graphs: Sequence[LabelledGraph], recipe: Recipe, threads: int = 1) -> LearnedEdges:
    """Learn the weights of the recipe's encoder, which is of kind `edges`; see `learn_edges`.

    The last tenth of the graphs validates. A single graph is learned from without validation.
    Graphs without edges are left out. Those without labels are labelled by bp (`pseudo_labelled`).

    Raises:
        BadSettings: no graph has edges, or none has labels or communities with strong evidence.
    """
    linked = [graph for graph in graphs if graph.adjacency.nnz]
    if not linked:
        raise BadSettings(f"none of the {len(graphs)} graphs has edges: give one that has")
    known = [
        pseudo_labelled(graph, recipe.seed, threads) if graph.labels is None else graph
        for graph in linked
    ]
    pairs = [(one.adjacency, one.labels) for one in known if one.labels is not None]
    if not pairs:
        raise BadSettings(
            f"bp finds no communities with strong evidence in {len(linked)} graphs without labels, "
            "so there is nothing to learn from: give labels, or graphs with more edges"
        )
    if len(pairs) < len(linked):
        structlog.get_logger().warning(
            "graphs without strong evidence are not learned from",
            graphs=len(linked) - len(pairs),
            of=len(linked),
        )
    at = len(pairs) - last_tenth(len(pairs)) if len(pairs) > 1 else 1
    return learn_edges(pairs[:at], recipe, validation=pairs[at:], threads=threads)


def pseudo_labelled(graph: LabelledGraph, seed: int = 0, threads: int = 1) -> LabelledGraph:
    """The graph with the communities that bp finds as labels, if their evidence is strong."""
    found = find_communities(graph.adjacency, BpParameters(search=True), seed=seed, threads=threads)
    is_strong = evidence_for(graph.adjacency, found).strength == "strong"
    return replace(graph, labels=found) if is_strong else graph
