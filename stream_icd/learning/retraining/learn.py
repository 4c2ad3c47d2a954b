"""Learn a model from chosen windows, in a process of its own, and say what it was learned from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, NamedTuple

from stream_icd.core.errors import NoGoodRows, OverBudget, Overloaded
from stream_icd.core.imports import needs_extra
from stream_icd.core.lineage import DataRange, Figure, Gate
from stream_icd.core.store.store import Store, open_store
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.windows import ArchivedLesson, KnownLabels, Lesson, read_lessons
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.icd.learn_edges import Effort
from stream_icd.learning.training.icd.proved_encoder import (
    EncoderProof,
    quarter,
    with_edges,
    with_weights,
)
from stream_icd.learning.training.icd.taught import Taught, in_hindsight
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model
from stream_icd.registry.model import ABOUT_FILE, CARD_FILE, About, PackedModel
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.worker_process import WorkerProcess

_Teacher = Literal["labels", "hindsight", "edges"]
"""`edges`: bp's parameters were learned from the edges, and the encoder nothing."""


@dataclass(frozen=True, slots=True)
class _LearnedFrom:
    """A window (snapshot id) that a model was learned from, and what was used of it."""

    window: str
    by: _Teacher
    known: KnownLabels


class _Learned(NamedTuple):
    model: Model
    windows: tuple[_LearnedFrom, ...]
    encoder: EncoderProof | None = None  # None: none was to be learned


_LEARNING_SHARE = 0.7
"""Of the budget's time, after which the encoder learns no further: what was best until then has to
be compared, and written."""


class Made(NamedTuple):
    """What learning made: the files of a model, and how it was learned."""

    model: PackedModel
    windows: tuple[_LearnedFrom, ...]
    encoder: EncoderProof | None = None  # None: none was to be learned

    @property
    def stopped(self) -> bool:
        """Whether the encoder has not learned all it could, since its time was up."""
        return self.encoder is not None and self.encoder.stopped

    def files(self, data: DataRange, gate: Gate) -> dict[str, bytes]:
        """The files of the model once it passed the gate, by name: also `about.toml`, `card.md`."""
        graphs = ", ".join(data.graphs)
        learned_from = f"{len(self.windows)} windows of {graphs} that ended by {data.end:%F %T} UTC"
        about = About(f"graphs like {graphs}", learned_from, gate.reason)
        figures = "\n".join(map(_figure, gate.figures))
        used = "\n".join(
            f"| {_cell(window.window)} | {window.by} | {window.known} |" for window in self.windows
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
{"" if self.encoder is None else self.encoder.section()}
## What was used of each window

`labels`: its known communities. `hindsight`: the communities that were found in it with the windows
before and after it, for the encoder; its edges for the numbers of bp. `edges`: only its edges.

| window | used | nodes with known communities |
|---|---|---|
{used}
"""
        return {ABOUT_FILE: about.to_toml(), CARD_FILE: card.encode(), **self.model.files}


def learn_job(
    settings: Retraining,
    lessons: Sequence[ArchivedLesson],
    recipe: Recipe,
    checkpoints: str,
    parent: str,
) -> Made:
    """Learn a model. Raises `NoGoodRows` if no window can be read.

    `checkpoints` is the URI of a folder, see `learn`; `parent` the path or URI of the champion.
    """
    # Taken first: reading the windows counts as well.
    until = time.process_time() + _LEARNING_SHARE * settings.budget.seconds
    folder = open_store(checkpoints) if recipe.trains_encoder else None
    readable = list(read_lessons(settings.archive, lessons))
    if not readable:
        raise NoGoodRows(f"none of the {len(lessons)} windows to learn from can be read")
    before = open_model(parent).model if recipe.learns_edges else None
    learned = learn(readable, recipe, settings.threads, folder, parent=before, until=until)
    return Made(PackedModel.of(learned.model), learned.windows, learned.encoder)


def learn(
    lessons: Sequence[Lesson],
    recipe: Recipe,
    threads: int = 1,
    checkpoints: Store | None = None,
    *,
    parent: Model | None = None,
    until: float = inf,
) -> _Learned:
    """Learn bp's parameters, and the encoder if the recipe has one that learns.

    Deterministic for windows, recipe and parent, unless the time is up. Labels are used if more
    than half of the windows have them: for bp's parameters, completely; for the encoder, of some
    nodes. Then only these windows are used. So a few late labels of old windows do not decide how
    to learn after a change. Otherwise bp's parameters are learned from the edges of all windows,
    and the encoder from what is found in them in hindsight.

    The newest quarter of the windows, at least one, validates the encoder; the others train it. The
    same windows say with which method the model is better.

    Args:
        lessons: in time order.
        checkpoints: training by the paper's losses goes on from a checkpoint in a folder of the
            recipe below this one.
        parent: the model before; see `with_edges`.
        until: the processor time of this process, in seconds, at which the encoder learns no
            further: what was best until then is kept.

    Raises:
        NoGoodRows: there are too few windows for the paper's losses.
        MissingExtra: these are to train the encoder, and torch is not installed.
    """
    complete = [lesson for lesson in lessons if lesson.known == "all nodes"]
    by_labels = 2 * len(complete) > len(lessons)
    used = complete if by_labels else list(lessons)
    graphs = [lesson.graph(by_labels=by_labels) for lesson in used]
    model = Model(recipe, fit_parameters(graphs, recipe.seed, threads).parameters)
    taught = [None] * len(lessons) if recipe.encoder_stays else _taught(lessons, recipe.seed)
    proof = None
    if recipe.learns_edges:
        effort = Effort(until - time.process_time(), threads, clock=time.process_time)
        teaching = list(filter(None, taught))
        model, proof = with_edges(model, teaching, parent=parent, effort=effort)
    elif recipe.trains_encoder:
        model, proof = _trained(model, graphs, taught, threads, checkpoints, until)
    windows = tuple(
        _LearnedFrom(lesson.snapshot.id, by, lesson.known)
        for lesson, teacher in zip(lessons, taught, strict=True)
        if (by := _by(lesson, teacher, used, by_labels=by_labels)) is not None
    )
    return _Learned(model, windows, proof)


def _taught(lessons: Sequence[Lesson], seed: int) -> list[Taught | None]:
    graphs = [lesson.graph(by_labels=False) for lesson in lessons]
    known_labels = [lesson.labels for lesson in lessons]
    has_labels = 2 * sum(of_window is not None for of_window in known_labels) > len(lessons)
    labels = known_labels if has_labels else in_hindsight(graphs, seed)
    return [
        Taught(graph, of_window, "labels" if has_labels else "hindsight")
        if of_window is not None and graph.adjacency.nnz
        else None
        for graph, of_window in zip(graphs, labels, strict=True)
    ]


def _by(
    lesson: Lesson, taught: Taught | None, used: Sequence[Lesson], *, by_labels: bool
) -> _Teacher | None:
    """What a window taught by; None if nothing was learned from it."""
    if taught is not None:
        return taught.by
    if lesson not in used:
        return None
    return "labels" if by_labels else "edges"


def _trained(
    model: Model,
    graphs: Sequence[LabelledGraph],
    taught: Sequence[Taught | None],
    threads: int,
    checkpoints: Store | None,
    until: float,
) -> tuple[Model, EncoderProof]:
    linked, recipe = [graph for graph in graphs if graph.adjacency.nnz], model.recipe
    if len(linked) < 2:
        raise NoGoodRows(f"the encoder needs at least 2 windows with edges, not {len(linked)}")
    with needs_extra("train", "torch"):
        from stream_icd.learning.training.icd.train_encoder import train
    at = len(linked) - quarter(len(linked))
    training = train(
        linked[:at],
        recipe,
        validation=linked[at:],
        # A folder for each recipe: the checkpoint of another one would be refused.
        checkpoints=checkpoints and checkpoints.below(recipe.digest()[:16]),
        threads=threads,
        seconds=until - time.process_time(),
        clock=time.process_time,
    )
    teaching = list(filter(None, taught))
    model, proof = with_weights(model, training.improved, teaching, threads)
    return model, replace(proof, stopped=not training.is_whole(recipe))


def _figure(figure: Figure) -> str:
    between = "" if figure.low is None else f"{figure.low:+.3f} to {figure.high:+.3f}"
    return f"| {figure.measure} | {figure.champion:.3f} | {figure.challenger:.3f} | {between} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


TrainingJob = Callable[[], Any]
"""What is done; it and its result can be pickled."""

RunJob = Callable[[TrainingJob, Allowance], Any]
"""Runs a job and returns its result, as `run_training` does."""


def run_training(job: TrainingJob, budget: Allowance) -> Any:
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


def _open_jobs() -> Callable[[TrainingJob], Any]:
    return lambda job: job()
