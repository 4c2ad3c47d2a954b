"""What is done in a process of its own, within a budget: learn from windows, compare models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stream_icd.detection.detect import Method
from stream_icd.errors import BadInput, HistoryDamaged, OverBudget, Overloaded
from stream_icd.execution.budget import Allowance
from stream_icd.execution.worker_process import WorkerProcess
from stream_icd.history.files import ArchivedWindow
from stream_icd.icd.recipe import Recipe
from stream_icd.registry.model import PackedModel, pack, read_model
from stream_icd.registry.shipped import folder_of
from stream_icd.retraining.compare_models import compare_models, hidden_edges, nmi_alone
from stream_icd.retraining.gate import Paired
from stream_icd.retraining.learn import LearnedFrom, learn
from stream_icd.retraining.state import Scored
from stream_icd.retraining.windows import Lesson, name_of, read_lesson
from stream_icd.store.store import Store, open_store

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


ArchivedLesson = tuple[ArchivedWindow, ArchivedWindow | None]
"""A window, and its labels if there are any."""


@dataclass(frozen=True, slots=True)
class LearnJob:
    """Learn a model from archived windows; `checkpoints` is the URI of a folder, see `learn`."""

    archive: str
    lessons: tuple[ArchivedLesson, ...]
    recipe: Recipe
    threads: int
    checkpoints: str

    def __call__(self) -> tuple[PackedModel, tuple[LearnedFrom, ...]]:
        """Return the files of the model, and the windows that it was learned from."""
        lessons = list(_read(self.archive, self.lessons))
        checkpoints = open_store(self.checkpoints) if self.recipe.trains_encoder else None
        learned = learn(lessons, self.recipe, self.threads, checkpoints)
        return pack(learned.model), learned.windows


@dataclass(frozen=True, slots=True)
class CompareJob:
    """Compare two models, given by paths or URIs, on archived windows."""

    archive: str
    lessons: tuple[ArchivedLesson, ...]
    champion: str
    challenger: str
    seed: int
    method: Method = "bp"

    def __call__(self) -> list[Paired]:
        places = self.champion, self.challenger
        champion, challenger = (read_model(folder_of(place))[0] for place in places)
        lessons = _read(self.archive, self.lessons)
        return compare_models(lessons, champion, challenger, self.seed, method=self.method)


@dataclass(frozen=True, slots=True)
class ScoreJob:
    """Measure a model on hidden edges of archived windows, and NMI where they are labelled."""

    archive: str
    lessons: tuple[ArchivedLesson, ...]
    model: str
    seed: int
    method: Method = "bp"

    def __call__(self) -> list[Scored]:
        model = read_model(folder_of(self.model))[0]
        labelled = {name_of(window) for window, labels in self.lessons if labels is not None}
        return [
            Scored(
                lesson.snapshot.graph,
                lesson.snapshot.id,
                hidden_edges(lesson, model, self.seed, self.method),
                (lesson.snapshot.graph, lesson.snapshot.id) in labelled,
                nmi_alone(lesson, model, self.seed, self.method),
            )
            for lesson in _read(self.archive, self.lessons)
        ]


def _read(archive: str, lessons: tuple[ArchivedLesson, ...]) -> Iterator[Lesson]:
    """Read one window after the other, so that not all are in memory; skip the unreadable ones."""
    store = open_store(archive)
    for window, labels in lessons:
        try:
            yield _lesson(store, window, labels)
        except (BadInput, HistoryDamaged):
            continue


def _lesson(store: Store, window: ArchivedWindow, labels: ArchivedWindow | None) -> Lesson:
    """Labels that cannot be read do not spoil their window."""
    try:
        return read_lesson(store, window, labels)
    except (BadInput, HistoryDamaged):
        return read_lesson(store, window, None)
