"""The work that is done in a process of its own: read windows, learn from them, compare models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from stream_icd.detection.detect import Method
from stream_icd.errors import BadInput, HistoryDamaged
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.icd.recipe import Recipe
from stream_icd.registry.model import PackedModel, pack, read_model
from stream_icd.registry.shipped import folder_of
from stream_icd.retraining.accumulated import name_of
from stream_icd.retraining.compare_models import compare_models, hidden_edges, nmi_alone
from stream_icd.retraining.gate import Paired
from stream_icd.retraining.learn import EncoderTraining, LearnedFrom, learn
from stream_icd.retraining.lesson import Lesson, read_lesson
from stream_icd.retraining.state import Scored
from stream_icd.store.store import open_store

ArchivedLesson = tuple[ArchivedWindow, ArchivedWindow | None]
"""A window, and its labels if there are any."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A model that was learned, ready to be published.

    Attributes:
        model: its files.
        windows: those that it was learned from.
        unreadable: windows that could not be read, with the reason; they were left out.
    """

    model: PackedModel
    windows: tuple[LearnedFrom, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LearnJob:
    """Learn a model from archived windows; the arguments are those of `learn`.

    Attributes:
        encoder: recipe of the encoder; None: it is not trained.
        checkpoints: URI of the folder of its checkpoints.
    """

    archive: str
    lessons: tuple[ArchivedLesson, ...]
    name: str
    data: str
    seed: int
    threads: int
    encoder: Recipe | None = None
    checkpoints: str = ""

    def __call__(self) -> Made:
        """Learn.

        Raises:
            BadSettings, MissingExtra: see `learn`.
        """
        unreadable = list[str]()
        lessons = list(_read(self.archive, self.lessons, unreadable.append))
        encoder = None
        if self.encoder is not None:
            encoder = EncoderTraining(self.encoder, open_store(self.checkpoints))
        learned = learn(lessons, self.name, self.data, self.seed, self.threads, encoder)
        return Made(pack(learned.model), learned.windows, tuple(unreadable))


@dataclass(frozen=True, slots=True)
class CompareJob:
    """Compare two models on archived windows.

    Attributes:
        champion, challenger: places of the models: paths or URIs.
    """

    archive: str
    lessons: tuple[ArchivedLesson, ...]
    champion: str
    challenger: str
    seed: int
    method: Method = "bp"

    def __call__(self) -> list[Paired]:
        """Compare; windows that cannot be read are left out."""
        champion, challenger = (
            read_model(folder_of(place))[0] for place in (self.champion, self.challenger)
        )
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
        """Measure; windows that cannot be read are left out."""
        model = read_model(folder_of(self.model))[0]
        labelled = {name_of(one) for one, labels in self.lessons if labels is not None}
        return [
            Scored(
                one.snapshot.graph,
                one.snapshot.id,
                hidden_edges(one, model, self.seed, self.method),
                (one.snapshot.graph, one.snapshot.id) in labelled,
                nmi_alone(one, model, self.seed, self.method),
            )
            for one in _read(self.archive, self.lessons)
        ]


def _read(
    archive: str,
    lessons: tuple[ArchivedLesson, ...],
    on_unreadable: Callable[[str], None] = lambda _: None,
) -> Iterator[Lesson]:
    """Read one window after the other, so that not all are in memory."""
    store = open_store(archive)
    for window, labels in lessons:
        try:
            yield _with_or_without(partial(read_lesson, store, window), labels)
        except (BadInput, HistoryDamaged) as error:
            on_unreadable(f"{window.identity.snapshot_id}: {error}")


def _with_or_without(
    read: Callable[[ArchivedWindow | None], Lesson], labels: ArchivedWindow | None
) -> Lesson:
    """Labels that cannot be read do not spoil their window."""
    try:
        return read(labels)
    except (BadInput, HistoryDamaged):
        if labels is None:
            raise
        return read(None)
