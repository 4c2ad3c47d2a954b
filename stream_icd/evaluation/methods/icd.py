"""The paper's method with the shipped model `default`: an untrained encoder, then K-means."""

from __future__ import annotations

from stream_icd.arrays import Labels
from stream_icd.detection.detect import detect
from stream_icd.evaluation.method import Method, Task, cpu_clock
from stream_icd.model import Model
from stream_icd.registry.shipped import open_model


def by_icd(task: Task, model: Model) -> Labels:
    """Features, embedding and K-means, each a stage."""
    found = detect(
        task.adjacency,
        model,
        task.n_communities,
        method="icd",
        seed=task.seed,
        threads=1,
        clock=cpu_clock,
    )
    task.stages.update({stage: ms / 1000 for stage, ms in found.milliseconds.items()})
    return found.communities


def find(task: Task) -> Labels:
    """Use the shipped model `default`."""
    return by_icd(task, open_model("default").model)


METHODS = {
    "icd": Method(find, "ICD paper, algorithm 4, stream_icd.icd", k="optional", weighted=True),
}
