"""Our default method: local moves, belief propagation, exactly K."""

from __future__ import annotations

from collections.abc import Sequence

from stream_icd.arrays import Labels
from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.evaluation.method import Method, Task
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.registry.shipped import open_model
from stream_icd.training.bp.fit import fit_parameters


def learn(history: Sequence[LabelledGraph], seed: int) -> BpParameters | None:
    """Learn from past graphs, with or without communities; nothing from no graphs."""
    return fit_parameters(list(history), seed, threads=1).parameters if history else None


def find(task: Task) -> Labels:
    """Use what was learned, else the shipped model `default`."""
    parameters = task.learned or open_model("default").model.bp
    return find_communities(task.adjacency, parameters, task.n_communities, seed=task.seed)


METHODS = {
    "bp": Method(find, "ours, stream_icd.bp", k="optional", weighted=True, learn=learn),
}
