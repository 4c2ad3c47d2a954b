"""Our default method with less to know: no communities of the past, and no K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, FollowedWindow, Task
from stream_icd.interfaces.evaluation.methods import bp_and_icd
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph

GRAPHS = 3
"""Graphs to learn from without communities: more add little, and learning tries many settings."""


find = bp_and_icd.METHODS["bp"].find


def learn_unlabelled(history: Sequence[LabelledGraph], seed: int) -> BpParameters | None:
    """Learn from a few graphs alone."""
    unlabelled = [replace(graph, labels=None) for graph in history[:GRAPHS]]
    return fit_parameters(unlabelled, seed, threads=1).parameters if unlabelled else None


def find_k(task: Task) -> Labels | FollowedWindow:
    """Find communities, and how many there are."""
    return find(replace(task, n_communities=None))


METHODS = {
    "bp-unlabelled": EvaluatedMethod(
        find,
        "ours, past graphs without communities",
        k="optional",
        weighted=True,
        learn=learn_unlabelled,
    ),
    "bp-alone": EvaluatedMethod(
        find_k,
        "ours, past graphs without communities, K unknown",
        k="ignored",
        weighted=True,
        learn=learn_unlabelled,
    ),
}
