"""The paper's method on the decayed sum of the windows, as `consume detect --method icd` has it."""

from __future__ import annotations

from stream_icd.arrays import Labels
from stream_icd.detection.detect import finding
from stream_icd.evaluation.method import Method, Remembering, Task, cpu_clock
from stream_icd.evaluation.methods import icd
from stream_icd.memory.detect import detect_window
from stream_icd.registry.shipped import open_model


def find(task: Task) -> Labels | Remembering:
    """A window with the edges of the windows before; a graph of no stream by `icd`."""
    if task.moment is None:
        return icd.find(task)
    model, spent = open_model("default").model, dict[str, float]()
    found = detect_window(
        task.adjacency,
        task.moment.nodes,
        task.moment.window,
        model.bp,
        task.memory,
        task.n_communities,
        find=finding("icd", model, seed=task.seed, threads=1, spent=spent, clock=cpu_clock),
        seed=task.seed,
    )
    task.stages.update({stage: ms / 1000 for stage, ms in spent.items()})
    return Remembering(found.communities, found.memory)


METHODS = {
    "icd-memory": Method(
        find,
        "ICD paper, algorithm 4, with stream_icd.memory",
        k="optional",
        weighted=True,
        remembers=True,
    ),
}
