"""Our default method: local moves, belief propagation, exactly K; also with memory."""

from __future__ import annotations

from collections.abc import Sequence

from stream_icd.arrays import Labels
from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.evaluation.method import Method, Remembering, Task
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.memory.detect import detect_window
from stream_icd.registry.shipped import open_model
from stream_icd.training.bp.fit import fit_parameters


def learn(history: Sequence[LabelledGraph], seed: int) -> BpParameters | None:
    """Learn from past graphs, with or without communities; nothing from no graphs."""
    return fit_parameters(list(history), seed, threads=1).parameters if history else None


def parameters_of(task: Task) -> BpParameters:
    """What was learned, else the parameters of the shipped model `default`."""
    return task.learned or open_model("default").model.bp


def find(task: Task) -> Labels:
    """Each graph alone."""
    return find_communities(task.adjacency, parameters_of(task), task.n_communities, seed=task.seed)


def find_remembering(task: Task) -> Labels | Remembering:
    """A window with what is remembered of the window before; a graph of no stream by `find`."""
    if task.moment is None:
        return find(task)
    nodes, window, k = task.moment.nodes, task.moment.window, task.n_communities
    parameters, memory = parameters_of(task), task.memory
    found = detect_window(task.adjacency, nodes, window, parameters, memory, k, seed=task.seed)
    return Remembering(found.communities, found.memory)


METHODS = {
    "bp": Method(find, "ours, stream_icd.bp", k="optional", weighted=True, learn=learn),
    "bp-memory": Method(
        find_remembering,
        "ours, stream_icd.memory",
        k="optional",
        weighted=True,
        remembers=True,
        learn=learn,
    ),
}
