"""Our default method with memory from window to window."""

from __future__ import annotations

from stream_icd.arrays import Labels
from stream_icd.evaluation.method import Method, Remembering, Task
from stream_icd.evaluation.methods import bp
from stream_icd.memory.detect import detect_window
from stream_icd.registry.shipped import open_model


def find(task: Task) -> Labels | Remembering:
    """A window with what is remembered of the window before; a graph of no stream by `bp`."""
    if task.moment is None:
        return bp.find(task)
    parameters = task.learned or open_model("default").model.bp
    found = detect_window(
        task.adjacency,
        task.moment.nodes,
        task.moment.window,
        parameters,
        task.memory,
        task.n_communities,
        seed=task.seed,
    )
    return Remembering(found.communities, found.memory)


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
