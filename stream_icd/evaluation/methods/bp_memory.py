"""Our default method with memory from window to window."""

from __future__ import annotations

from stream_icd.bp.remember import find_remembering
from stream_icd.evaluation.method import Labels, Method, Remembering, Task
from stream_icd.evaluation.methods import bp
from stream_icd.memory.recall import recall
from stream_icd.memory.remember import remember
from stream_icd.registry.shipped import open_model


def find(task: Task) -> Labels | Remembering:
    """A window with what is remembered of the window before; a graph of no stream by `bp`."""
    if task.moment is None:
        return bp.find(task)
    parameters = task.learned or open_model("default").model.bp
    nodes, window = task.moment.nodes, task.moment.window
    recalled = recall(task.memory, nodes, window, parameters.stay)
    found = find_remembering(
        task.adjacency, parameters, recalled, task.n_communities, seed=task.seed
    )
    return Remembering(found.labels, remember(task.memory, nodes, window, found))


METHODS = {
    "bp-memory": Method(
        find,
        "ours, stream_icd.memory",
        k="optional",
        weighted=True,
        remembers=True,
        learn=bp.learn,
    ),
}
