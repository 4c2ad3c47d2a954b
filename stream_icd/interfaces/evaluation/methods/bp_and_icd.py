"""Our methods: bp, the default, and icd, the paper's; each also with memory, as detectors use it.

With memory, icd gets the decayed sum of the windows. Its encoder is the untrained one of the
shipped model `default`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, FollowedWindow, Task, cpu_clock
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.memory.follow import Find
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect, finding


def _learn(history: Sequence[LabelledGraph], seed: int) -> BpParameters | None:
    """Learn from past graphs, with or without communities; nothing from no graphs."""
    return fit_parameters(list(history), seed, threads=1).parameters if history else None


@cache
def _default() -> Model:
    return open_model("default").model


def _by_bp(task: Task) -> Labels:
    """Each graph alone, with the parameters learned, else those of the shipped model."""
    parameters = task.learned or _default().bp
    return find_communities(task.adjacency, parameters, task.n_communities, seed=task.seed)


def _by_bp_remembering(task: Task) -> Labels | FollowedWindow:
    """A window with what is remembered of the window before; a graph of no stream alone."""
    return _by_bp(task) if task.moment is None else _remembering(task, None)


def by_icd(task: Task, model: Model | None = None) -> Labels:
    """Features, embedding and K-means, each a stage, with this model or the shipped one."""
    detection = detect(
        task.adjacency,
        model or _default(),
        task.n_communities,
        method="icd",
        seed=task.seed,
        threads=1,
        clock=cpu_clock,
    )
    task.stages.update({stage: ms / 1000 for stage, ms in detection.milliseconds.items()})
    return detection.communities


def _by_icd_remembering(task: Task) -> Labels | FollowedWindow:
    """A window with the edges of the windows before; a graph of no stream alone."""
    if task.moment is None:
        return by_icd(task)
    spent = dict[str, float]()
    find = finding("icd", _default(), seed=task.seed, threads=1, spent=spent, clock=cpu_clock)
    window = _remembering(task, find)
    task.stages.update({stage: ms / 1000 for stage, ms in spent.items()})  # `find` filled it
    return window


def _remembering(task: Task, find: Find | None) -> FollowedWindow:
    assert task.moment is not None
    detected = detect_window(
        task.adjacency,
        task.moment.nodes,
        task.moment.window,
        task.learned or _default().bp,
        task.memory,
        task.n_communities,
        find=find,
        seed=task.seed,
    )
    return FollowedWindow(detected.communities, detected.memory)


METHODS = {
    "bp": EvaluatedMethod(_by_bp, "ours, stream_icd.bp", k="optional", weighted=True, learn=_learn),
    "bp-memory": EvaluatedMethod(
        _by_bp_remembering,
        "ours, stream_icd.memory",
        k="optional",
        weighted=True,
        remembers=True,
        learn=_learn,
    ),
    "icd": EvaluatedMethod(
        by_icd, "ICD paper, algorithm 3, stream_icd.icd", k="optional", weighted=True
    ),
    "icd-memory": EvaluatedMethod(
        _by_icd_remembering,
        "ICD paper, algorithm 3, with stream_icd.memory",
        k="optional",
        weighted=True,
        remembers=True,
    ),
}
