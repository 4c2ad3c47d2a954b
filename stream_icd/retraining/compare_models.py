"""Compare two models on the same windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.detection.detect import Method, detect
from stream_icd.graphs.weights import comparable
from stream_icd.model import Model
from stream_icd.quality.hidden_edges import hidden_edge_score, hide_edges
from stream_icd.quality.nmi import nmi
from stream_icd.replay.compare import churn
from stream_icd.retraining.lesson import UNKNOWN, Lesson
from stream_icd.retraining.measured import Measured, Paired

SPLITS = 2
"""Number of tenths of the edges to hide, one after the other."""

CpuClock = Callable[[], float]


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    nodes: pa.Array
    labels: NDArray[np.int32]


def compare_models(
    lessons: Iterable[Lesson],
    champion: Model,
    challenger: Model,
    seed: int = 0,
    cpu_clock: CpuClock = time.process_time,
    method: Method = "bp",
) -> list[Paired]:
    """Measure both models on each window; both see the same hidden edges.

    Models are compared on single windows, without memory between them.

    Args:
        lessons: in time order.
        cpu_clock: processor time in seconds.
        method: the detection method of both.
    """
    before: dict[tuple[str, int], _Found] = {}
    paired = []
    for lesson in lessons:
        both = []
        for number, model in enumerate((champion, challenger)):
            of_model = lesson.snapshot.graph, number
            measured, found = _measured(
                lesson, model, before.get(of_model), seed, cpu_clock, method
            )
            before[of_model] = found
            both.append(measured)
        paired.append(Paired(lesson.snapshot.id, *both))
    return paired


def evidence(lesson: Lesson, model: Model, seed: int = 0, method: Method = "bp") -> float:
    """How well the model's communities predict hidden edges of a window, bits per edge."""
    graph = comparable(lesson.snapshot.adjacency())
    scores = [
        hidden_edge_score(hidden, _labels(hidden.visible, model, seed, method))
        for hidden in islice(hide_edges(graph, seed), SPLITS)
    ]
    return float(np.mean(scores))


def nmi_alone(lesson: Lesson, model: Model, seed: int = 0, method: Method = "bp") -> float | None:
    """NMI of the model's communities with the known labels, 0..1; None without usable ones."""
    if lesson.labels is None:
        return None
    return _nmi(lesson, _labels(lesson.snapshot.adjacency(), model, seed, method))


def _labels(adjacency: csr_array, model: Model, seed: int, method: Method) -> NDArray[np.int32]:
    return detect(adjacency, model, method=method, seed=seed, threads=1).communities


def _measured(
    lesson: Lesson,
    model: Model,
    before: _Found | None,
    seed: int,
    cpu_clock: CpuClock,
    method: Method,
) -> tuple[Measured, _Found]:
    adjacency = lesson.snapshot.adjacency()
    started = cpu_clock()
    labels = _labels(adjacency, model, seed, method)
    seconds = cpu_clock() - started
    found = _Found(lesson.snapshot.nodes, labels)
    measured = Measured(
        evidence=evidence(lesson, model, seed, method),
        seconds=seconds,
        nmi=_nmi(lesson, labels),
        churn=None if before is None else churn(before, found),
    )
    return measured, found


def _nmi(lesson: Lesson, labels: NDArray[np.int32]) -> float | None:
    """NMI on the labelled nodes."""
    if lesson.labels is None:
        return None
    known = lesson.labels != UNKNOWN
    return nmi(lesson.labels[known], labels[known])
