"""The paper's method with the shipped model `default`: an untrained encoder, then K-means.

With memory, it gets the decayed sum of the windows, as `consume detect --method icd` has it.
"""

from __future__ import annotations

from stream_icd.arrays import Labels
from stream_icd.detection.detect import detect, finding
from stream_icd.evaluation.method import Method, Remembering, Task, cpu_clock
from stream_icd.memory.detect import detect_window
from stream_icd.model import Model
from stream_icd.registry.shipped import open_model


def by_icd(task: Task, model: Model) -> Labels:
    """Features, embedding and K-means, each a stage."""
    detection = detect(
        task.adjacency,
        model,
        task.n_communities,
        method="icd",
        seed=task.seed,
        threads=1,
        clock=cpu_clock,
    )
    task.stages.update({stage: ms / 1000 for stage, ms in detection.milliseconds.items()})
    return detection.communities


def find(task: Task) -> Labels:
    """Use the shipped model `default`."""
    return by_icd(task, open_model("default").model)


def find_remembering(task: Task) -> Labels | Remembering:
    """A window with the edges of the windows before; a graph of no stream by `find`."""
    if task.moment is None:
        return find(task)
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
    "icd": Method(find, "ICD paper, algorithm 4, stream_icd.icd", k="optional", weighted=True),
    "icd-memory": Method(
        find_remembering,
        "ICD paper, algorithm 4, with stream_icd.memory",
        k="optional",
        weighted=True,
        remembers=True,
    ),
}
