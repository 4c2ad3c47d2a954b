"""Compare two models on the same windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import tee

from scipy.sparse import csr_array

from stream_icd.arrays import Labels
from stream_icd.detection.detect import Method, detect
from stream_icd.graphs.weights import comparable
from stream_icd.model import Model
from stream_icd.quality.agreement import nmi
from stream_icd.quality.hidden_edges import mean_hidden_edge_score
from stream_icd.replay.compare import Assignment, churn
from stream_icd.retraining.gate import Measured, Paired
from stream_icd.retraining.windows import UNKNOWN, Lesson
from stream_icd.training.yardstick import Judged, judge

CpuClock = Callable[[], float]


def compare_models(
    lessons: Iterable[Lesson],
    champion: Model,
    challenger: Model,
    seed: int = 0,
    cpu_clock: CpuClock = time.process_time,
    method: Method = "bp",
) -> list[Paired]:
    """Measure both models on each window; both see the same hidden edges.

    With bp, each model follows the windows of a graph as a detector does, with its own memory. The
    score on hidden edges is that of single windows: memory would know them from the windows before.

    Args:
        lessons: those of a graph in time order.
        cpu_clock: processor time in seconds.
    """
    models = champion, challenger
    lessons, windows = tee(lessons)
    all_detected = _detected(windows, models, seed, cpu_clock, method)
    before: dict[tuple[str, int], Assignment] = {}
    paired = []
    for lesson, detected in zip(lessons, all_detected, strict=True):
        both = []
        for number, (model, one) in enumerate(zip(models, detected, strict=True)):
            of_model = lesson.snapshot.graph, number
            last, assignment = (
                before.get(of_model),
                Assignment(lesson.snapshot.nodes, one.communities),
            )
            both.append(
                Measured(
                    hidden_edges=hidden_edges(lesson, model, seed, method),
                    seconds=one.seconds,
                    predicted=one.bits,
                    nmi=_nmi(lesson, one.communities),
                    churn=None if last is None else churn(last, assignment),
                )
            )
            before[of_model] = assignment
        paired.append(Paired(lesson.snapshot.id, *both))
    return paired


def hidden_edges(lesson: Lesson, model: Model, seed: int = 0, method: Method = "bp") -> float:
    """How well the model's communities predict hidden edges of a window, bits per edge."""
    graph = comparable(lesson.snapshot.adjacency())
    found = mean_hidden_edge_score(
        graph, partial(_labels, model=model, seed=seed, method=method), seed
    )
    assert found is not None, "a model finds communities in every graph"
    return found


def nmi_alone(lesson: Lesson, model: Model, seed: int = 0, method: Method = "bp") -> float | None:
    """NMI of the model's communities with the known labels, 0..1; None without usable ones."""
    if lesson.labels is None:
        return None
    return _nmi(lesson, _labels(lesson.snapshot.adjacency(), model, seed, method))


def _labels(adjacency: csr_array, model: Model, seed: int, method: Method) -> Labels:
    return detect(adjacency, model, method=method, seed=seed, threads=1).communities


def _detected(
    lessons: Iterable[Lesson],
    models: Sequence[Model],
    seed: int,
    cpu_clock: CpuClock,
    method: Method,
) -> Iterator[tuple[Judged, ...]]:
    """What each model finds in each window."""
    if method == "bp":
        graphs = (one.graph(by_labels=False) for one in lessons)
        return judge(graphs, [model.bp for model in models], seed, cpu_clock)

    def alone(lesson: Lesson, model: Model) -> Judged:
        adjacency, started = lesson.snapshot.adjacency(), cpu_clock()
        labels = _labels(adjacency, model, seed, method)
        return Judged(None, labels, cpu_clock() - started)

    return (tuple(alone(lesson, model) for model in models) for lesson in lessons)


def _nmi(lesson: Lesson, labels: Labels) -> float | None:
    """NMI on the labelled nodes."""
    if lesson.labels is None:
        return None
    known = lesson.labels != UNKNOWN
    return nmi(lesson.labels[known], labels[known])
