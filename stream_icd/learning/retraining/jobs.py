"""What is done in a process of its own, within a budget: learn from windows, compare models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, tee
from typing import Any, NamedTuple

import structlog
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadInput, HistoryDamaged, NoGoodRows, OverBudget, Overloaded
from stream_icd.core.store.store import open_store
from stream_icd.history.replay.compare import Assignment, churn
from stream_icd.learning.retraining.gate import Measured, Paired
from stream_icd.learning.retraining.learn import LearnedFrom, LearningTime, learn
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import ScoredWindow
from stream_icd.learning.retraining.windows import ArchivedLesson, Lesson, read_lesson
from stream_icd.learning.training.icd.proved_encoder import EncoderProof
from stream_icd.learning.training.yardstick import judge
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.methods.quality.agreement import nmi, of_known
from stream_icd.methods.quality.partition import mean_hidden_edge_score
from stream_icd.registry.find import open_model
from stream_icd.registry.model import PackedModel, pack
from stream_icd.streaming.detection.detect import detect
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.worker_process import WorkerProcess

Job = Callable[[], Any]
"""What is done; it and its result can be pickled."""

RunJob = Callable[[Job, Allowance], Any]
"""Runs a job and returns its result, as `run_job` does."""


def run_job(job: Job, budget: Allowance) -> Any:
    """Run a job, and return its result. The process never outlives this one.

    Raises:
        OverBudget: it exceeded a limit, and was ended.
        Overloaded: it was ended from outside, for example because memory ran out.
    """
    process = WorkerProcess(_open_jobs)
    try:
        succeeded, result = process.do(job, budget)
    except OverBudget as error:
        raise OverBudget(
            f"learning {error} (--budget-seconds, --budget-memory). Learn from fewer windows, or "
            "raise it"
        ) from error
    except (EOFError, OSError) as error:
        raise Overloaded(
            f"the learning process ended (exit status {process.end()}), as when memory runs out; "
            "the champion stays"
        ) from error
    finally:
        process.end()
    if not succeeded:
        raise result
    return result


def _open_jobs() -> Callable[[Job], Any]:
    return lambda job: job()


def _read_lessons(archive: str, lessons: Sequence[ArchivedLesson]) -> Iterator[Lesson]:
    """Read windows of the archive at a path or URI, one after the other: not all are in memory.

    Unreadable ones are left out, and logged; labels that cannot be read do not spoil their window.
    """
    store, log = open_store(archive), structlog.get_logger()
    for window, labels in lessons:
        for wanted in dict.fromkeys((labels, None)):  # at last without labels
            try:
                lesson = read_lesson(store, window, wanted)
            except (BadInput, HistoryDamaged) as error:
                graph, snapshot = window.name
                event = "a window cannot be read" if wanted is None else "labels cannot be read"
                log.warning(event, graph=graph, snapshot=snapshot, error=str(error))
            else:
                yield lesson
                break


_LEARNING_SHARE = 0.7
"""Of the budget's time, after which the encoder learns no further: what was best until then has to
be compared, and written."""


class Made(NamedTuple):
    """What learning made: the files of a model, and how it was learned."""

    model: PackedModel
    windows: tuple[LearnedFrom, ...]
    encoder: EncoderProof | None = None  # None: none was to be learned

    @property
    def stopped(self) -> bool:
        """Whether the encoder has not learned all it could, since its time was up."""
        return self.encoder is not None and self.encoder.stopped


def learn_job(
    settings: Retraining,
    lessons: Sequence[ArchivedLesson],
    recipe: Recipe,
    checkpoints: str,
    parent: str,
) -> Made:
    """Learn a model.

    `checkpoints` is the URI of a folder, see `learn`; `parent` the path or URI of the champion.

    Raises:
        NoGoodRows: no window can be read.
    """
    limit = LearningTime(time.process_time() + _LEARNING_SHARE * settings.budget.seconds)
    folder = open_store(checkpoints) if recipe.trains_encoder else None
    readable = list(_read_lessons(settings.archive, lessons))
    if not readable:
        raise NoGoodRows(f"none of the {len(lessons)} windows to learn from can be read")
    before = open_model(parent).model if recipe.learns_edges else None
    learned = learn(readable, recipe, settings.threads, folder, parent=before, limit=limit)
    return Made(pack(learned.model), learned.windows, learned.encoder)


def compare_job(
    settings: Retraining,
    lessons: Sequence[ArchivedLesson],
    warm_up: Sequence[ArchivedLesson],
    most: int,
    champion: str,
    challenger: str,
) -> list[Paired]:
    """Compare two models, given by paths or URIs, on the first windows that can be read.

    For `warm_up`, see `compare_models`.
    """
    models = open_model(champion).model, open_model(challenger).model
    first = islice(_read_lessons(settings.archive, lessons), most)
    before = _read_lessons(settings.archive, warm_up)
    return compare_models(
        first,
        *models,
        settings.seed,
        method=settings.method,
        warm_up=before,
        remember=settings.memory == "auto",
    )


def score_job(
    settings: Retraining,
    lessons: Sequence[ArchivedLesson],
    warm_up: Sequence[ArchivedLesson],
    model_name: str,
) -> list[ScoredWindow]:
    """Measure a model on hidden edges, and NMI, as of a detector, where windows are labelled.

    `warm_up`: the windows before, which a detector had seen.
    """
    model, seed, method = open_model(model_name).model, settings.seed, settings.method
    labelled = {window.name for window, labels in lessons if labels is not None}
    before = _read_lessons(settings.archive, warm_up if labelled else ())
    windows, followed = tee(chain(before, _read_lessons(settings.archive, lessons)))
    graphs = (lesson.graph(by_labels=False) for lesson in followed)
    remember = settings.memory == "auto"
    judged = judge(graphs, [model] if labelled else [], seed, method=method, remember=remember)
    to_score, scored = {window.name for window, _ in lessons}, []
    for lesson, found in zip(windows, judged, strict=True):
        name = lesson.snapshot.graph, lesson.snapshot.id
        if name in to_score:
            predicted = hidden_edges(lesson, model, seed, method)
            agreement = _nmi(lesson, found[0].communities) if found else None
            scored.append(ScoredWindow(*name, predicted, name in labelled, agreement))
    return scored


def compare_models(
    lessons: Iterable[Lesson],
    champion: Model,
    challenger: Model,
    seed: int = 0,
    cpu_clock: Callable[[], float] = time.process_time,
    method: MethodChoice = "auto",
    warm_up: Iterable[Lesson] = (),
    remember: bool = True,
) -> list[Paired]:
    """Measure both models on each window; both see the same hidden edges.

    Each model follows the windows of a graph, in time order, as a detector does: by its own method,
    unless `method` is another one, with its own memory if detectors `remember`, and with K where
    the window states it. The windows of `warm_up`, which are not measured, come first. The score on
    hidden edges is that of single windows: memory would know them from the windows before.
    """
    models = champion, challenger
    warm = list(warm_up)
    lessons, windows = tee(chain(warm, lessons))
    graphs = (lesson.graph(by_labels=False) for lesson in windows)
    all_judged = judge(graphs, models, seed, cpu_clock, method, remember)
    before: dict[tuple[str, int], Assignment] = {}
    paired = []
    for at, (lesson, both) in enumerate(zip(lessons, all_judged, strict=True)):
        measured = []
        for number, (model, judged) in enumerate(zip(models, both, strict=True)):
            of_model = lesson.snapshot.graph, number
            last = before.get(of_model)
            before[of_model] = Assignment(lesson.snapshot.nodes, judged.communities)
            if at < len(warm):
                continue
            measured.append(
                Measured(
                    hidden_edges=hidden_edges(lesson, model, seed, method),
                    seconds=judged.seconds,
                    predicted=judged.bits,
                    nmi=_nmi(lesson, judged.communities),
                    churn=None if last is None else churn(last, before[of_model]),
                )
            )
        if measured:
            paired.append(Paired(*measured))
    return paired


def hidden_edges(
    lesson: Lesson, model: Model, seed: int = 0, method: MethodChoice = "auto"
) -> float:
    """How well the model's communities predict hidden edges of a window, bits per edge."""
    k = lesson.snapshot.n_communities

    def find(adjacency: csr_array) -> Labels:
        return detect(adjacency, model, k, method=method, seed=seed, threads=1).communities

    score = mean_hidden_edge_score(comparable(lesson.snapshot.adjacency()), find, seed)
    assert score is not None, "a model finds communities in every graph"
    return score


def _nmi(lesson: Lesson, labels: Labels) -> float | None:
    """NMI on the labelled nodes."""
    if lesson.labels is None:
        return None
    return nmi(*of_known(lesson.labels, labels))
