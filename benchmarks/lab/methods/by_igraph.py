"""Louvain, Leiden, label propagation, Infomap and Walktrap by python-igraph (GPL)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task, UseOfK, module

Run = Callable[[Any, int | None, int], Labels]
"""Labels from an igraph graph with `weight`, K and a seed."""


def louvain(graph: Any, _k: int | None, seed: int) -> Labels:
    """Modularity, the last level."""
    random.seed(seed)
    return np.array(graph.community_multilevel(weights="weight").membership, np.int32)


def walktrap(graph: Any, k: int | None, _seed: int) -> Labels:
    """Random walks of 4 steps; the level with K communities, or that of the highest modularity."""
    levels = graph.community_walktrap(weights="weight", steps=4)
    return np.array(levels.as_clustering(k).membership, np.int32)


def _peer(name: str) -> Run:
    def run(graph: Any, k: int | None, seed: int) -> Labels:
        from benchmarks.shared.peers import igraph_peers

        found: Labels = getattr(igraph_peers, name)(graph, k, seed)
        return found

    return run


def _method(run: Run, source: str, k: UseOfK) -> EvaluatedMethod:
    def find(task: Task) -> Labels:
        from benchmarks.shared.peers.igraph_peers import on_igraph

        return on_igraph(run)(task)

    missing = module("igraph", "pip install 'stream-icd[lab]'")
    return EvaluatedMethod(find, f"{source}; igraph", k=k, weighted=True, missing=missing)


METHODS = {
    "louvain": _method(louvain, "Blondel et al. 2008", "ignored"),
    "igraph-leiden": _method(_peer("leiden"), "Traag et al. 2019, two iterations", "ignored"),
    "igraph-leiden-k": _method(
        _peer("converged_leiden"),
        "Traag et al. 2019, the resolution searched for K, then until nothing improves",
        "needed",
    ),
    "label-propagation": _method(
        _peer("label_propagation"), "Raghavan, Albert, Kumara 2007", "ignored"
    ),
    "infomap": _method(_peer("infomap"), "Rosvall, Bergstrom 2008, best of 10 trials", "ignored"),
    "walktrap": _method(walktrap, "Pons, Latapy 2005", "optional"),
}
