"""What is done in a process of its own, within a budget: learn from windows, compare models.

And what the card of a learned model says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, tee
from typing import Any, Literal

import structlog
from scipy.sparse import csr_array

from stream_icd.arrays import Labels
from stream_icd.detection.detect import Method, detect
from stream_icd.errors import BadInput, HistoryDamaged, NoGoodRows, OverBudget, Overloaded
from stream_icd.execution.budget import Allowance
from stream_icd.execution.worker_process import WorkerProcess
from stream_icd.graphs.weights import comparable
from stream_icd.history.files import ArchivedWindow
from stream_icd.icd.recipe import Recipe, recipe_digest
from stream_icd.imports import needs_extra
from stream_icd.lineage import DataRange, Figure, Gate
from stream_icd.model import Model
from stream_icd.quality.agreement import nmi
from stream_icd.quality.hidden_edges import mean_hidden_edge_score
from stream_icd.registry.find import open_model
from stream_icd.registry.model import ABOUT_FILE, CARD_FILE, About, PackedModel, pack
from stream_icd.replay.compare import Assignment, churn
from stream_icd.retraining.gate import Measured, Paired
from stream_icd.retraining.state import Scored
from stream_icd.retraining.windows import UNKNOWN, Known, Lesson, read_lesson
from stream_icd.store.store import Store, open_store
from stream_icd.training.bp.fit import fit_parameters
from stream_icd.training.yardstick import Judged, judge

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


def read_lessons(archive: str, lessons: Sequence[ArchivedLesson]) -> Iterator[Lesson]:
    """Read windows of the archive at a path or URI, one after the other: not all are in memory.

    Unreadable ones are left out, and logged; labels that cannot be read do not spoil their window.
    """
    store = open_store(archive)
    for window, labels in lessons:
        lesson = _readable(store, window, labels)
        if lesson is None and labels is not None:
            lesson = _readable(store, window, None)
        if lesson is not None:
            yield lesson


def _readable(store: Store, window: ArchivedWindow, labels: ArchivedWindow | None) -> Lesson | None:
    """A window with its labels; None if one of them cannot be read, which is logged."""
    try:
        return read_lesson(store, window, labels)
    except (BadInput, HistoryDamaged) as error:
        graph, snapshot = window.name
        event = "a window cannot be read" if labels is None else "labels cannot be read"
        structlog.get_logger().warning(event, graph=graph, snapshot=snapshot, error=str(error))
        return None


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """A window (snapshot id) that a model was learned from, and what was used of it."""

    window: str
    by: Literal["labels", "edges"]
    known: Known


def learn_job(
    archive: str,
    lessons: Sequence[ArchivedLesson],
    recipe: Recipe,
    threads: int,
    checkpoints: str,
) -> tuple[PackedModel, tuple[LearnedFrom, ...]]:
    """Learn a model: its files, and the windows that it was learned from.

    `checkpoints` is the URI of a folder, see `learn`.

    Raises:
        NoGoodRows: no window can be read.
    """
    folder = open_store(checkpoints) if recipe.trains_encoder else None
    readable = list(read_lessons(archive, lessons))
    if not readable:
        raise NoGoodRows(f"none of the {len(lessons)} windows to learn from can be read")
    model, windows = learn(readable, recipe, threads, folder)
    return pack(model), windows


def learn(
    lessons: Sequence[Lesson], recipe: Recipe, threads: int = 1, checkpoints: Store | None = None
) -> tuple[Model, tuple[LearnedFrom, ...]]:
    """Learn bp's parameters, and train the encoder if the recipe says so.

    Returns the model, and the windows that it was learned from.

    Deterministic for windows and recipe. Labels are used if more than half of the windows are
    completely labelled, and then only those windows; otherwise all windows are used, without
    labels. So a few late labels of old windows do not decide how to learn after a change.

    The newest quarter of the windows, at least one, chooses the encoder's epoch; the others train.

    Args:
        lessons: in time order.
        checkpoints: training goes on from a checkpoint in a folder of the recipe below this one.

    Raises:
        NoGoodRows: there are too few windows for the encoder.
        MissingExtra: the encoder is to be trained, and torch is not installed.
    """
    complete = [lesson for lesson in lessons if lesson.known == "all nodes"]
    by_labels = 2 * len(complete) > len(lessons)
    used = complete if by_labels else list(lessons)
    graphs = [lesson.graph(by_labels=by_labels) for lesson in used]
    model = Model(recipe, fit_parameters(graphs, recipe.seed, threads).parameters)
    if recipe.trains_encoder:
        linked = [graph for graph in graphs if graph.adjacency.nnz]
        if len(linked) < 2:
            raise NoGoodRows(f"the encoder needs at least 2 windows with edges, not {len(linked)}")
        with needs_extra("train", "torch"):
            from stream_icd.training.icd.train_encoder import train
        at = len(linked) - max(1, len(linked) // 4)
        training = train(
            linked[:at],
            recipe,
            validation=linked[at:],
            checkpoints=checkpoints and checkpoints.below(recipe_digest(recipe)[:16]),
            threads=threads,
        )
        model = replace(training.model, bp=model.bp)
    windows = tuple(
        LearnedFrom(lesson.snapshot.id, "labels" if by_labels else "edges", lesson.known)
        for lesson in used
    )
    return model, windows


def described(windows: Sequence[LearnedFrom], data: DataRange, gate: Gate) -> dict[str, bytes]:
    """`about.toml` and `card.md` of a model that passed the gate, by name."""
    graphs = ", ".join(data.graphs)
    learned_from = f"{len(windows)} windows of {graphs} that ended by {data.end:%F %T} UTC"
    about = About(f"graphs like {graphs}", learned_from, gate.reason)
    figures = "\n".join(map(_figure, gate.figures))
    used = "\n".join(
        f"| {_cell(window.window)} | {window.by} | {window.known} |" for window in windows
    )
    card = f"""# {gate.challenger}

**For**: {about.purpose}.

**Learned from**: {learned_from}; its parent is {gate.champion}.

**How good**: {gate.reason}.

## Compared with the champion before

On {gate.windows} newer windows that neither learned from, {gate.start:%F %T} to
{gate.end:%F %T} UTC.

| measure | {gate.champion} | {gate.challenger} | difference |
|---|---|---|---|
{figures}

## What was used of each window

`labels`: its known communities; `edges`: its edges, without labels.

| window | used | nodes with known communities |
|---|---|---|
{used}
"""
    return {ABOUT_FILE: about.to_toml(), CARD_FILE: card.encode()}


def _figure(figure: Figure) -> str:
    between = "" if figure.low is None else f"{figure.low:+.3f} to {figure.high:+.3f}"
    return f"| {figure.measure} | {figure.champion:.3f} | {figure.challenger:.3f} | {between} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def compare_job(
    archive: str,
    lessons: Sequence[ArchivedLesson],
    most: int,
    champion: str,
    challenger: str,
    seed: int,
    method: Method,
) -> list[Paired]:
    """Compare two models, given by paths or URIs, on the first windows that can be read."""
    models = open_model(champion).model, open_model(challenger).model
    return compare_models(
        islice(read_lessons(archive, lessons), most), *models, seed, method=method
    )


def score_job(
    archive: str, lessons: Sequence[ArchivedLesson], model_name: str, seed: int, method: Method
) -> list[Scored]:
    """Measure a model on hidden edges, and NMI where windows are labelled."""
    model = open_model(model_name).model
    labelled = {window.name for window, labels in lessons if labels is not None}
    scored = []
    for lesson in read_lessons(archive, lessons):
        name, agreement = (lesson.snapshot.graph, lesson.snapshot.id), None
        if lesson.labels is not None:
            agreement = _nmi(lesson, _labels(lesson.snapshot.adjacency(), model, seed, method))
        predicted = hidden_edges(lesson, model, seed, method)
        scored.append(Scored(*name, predicted, name in labelled, agreement))
    return scored


def compare_models(
    lessons: Iterable[Lesson],
    champion: Model,
    challenger: Model,
    seed: int = 0,
    cpu_clock: Callable[[], float] = time.process_time,
    method: Method = "bp",
) -> list[Paired]:
    """Measure both models on each window; both see the same hidden edges.

    With bp, each model follows the windows of a graph, in time order, as a detector does, with its
    own memory. The score on hidden edges is that of single windows: memory would know them from the
    windows before.
    """
    models = champion, challenger
    lessons, windows = tee(lessons)
    all_detected = _detected(windows, models, seed, cpu_clock, method)
    before: dict[tuple[str, int], Assignment] = {}
    paired = []
    for lesson, detected in zip(lessons, all_detected, strict=True):
        measured = []
        for number, (model, judged) in enumerate(zip(models, detected, strict=True)):
            of_model = lesson.snapshot.graph, number
            last = before.get(of_model)
            before[of_model] = Assignment(lesson.snapshot.nodes, judged.communities)
            measured.append(
                Measured(
                    hidden_edges=hidden_edges(lesson, model, seed, method),
                    seconds=judged.seconds,
                    predicted=judged.bits,
                    nmi=_nmi(lesson, judged.communities),
                    churn=None if last is None else churn(last, before[of_model]),
                )
            )
        paired.append(Paired(lesson.snapshot.id, *measured))
    return paired


def hidden_edges(lesson: Lesson, model: Model, seed: int = 0, method: Method = "bp") -> float:
    """How well the model's communities predict hidden edges of a window, bits per edge."""
    find = partial(_labels, model=model, seed=seed, method=method)
    score = mean_hidden_edge_score(comparable(lesson.snapshot.adjacency()), find, seed)
    assert score is not None, "a model finds communities in every graph"
    return score


def _labels(adjacency: csr_array, model: Model, seed: int, method: Method) -> Labels:
    return detect(adjacency, model, method=method, seed=seed, threads=1).communities


def _detected(
    lessons: Iterable[Lesson],
    models: Sequence[Model],
    seed: int,
    cpu_clock: Callable[[], float],
    method: Method,
) -> Iterator[tuple[Judged, ...]]:
    """What each model finds in each window."""
    if method == "bp":
        graphs = (lesson.graph(by_labels=False) for lesson in lessons)
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
