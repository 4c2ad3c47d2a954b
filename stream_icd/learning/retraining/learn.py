"""Learn a model from chosen windows, and say what it was learned from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, NamedTuple

from stream_icd.core.errors import NoGoodRows
from stream_icd.core.imports import needs_extra
from stream_icd.core.lineage import DataRange, Figure, Gate
from stream_icd.core.store.store import Store
from stream_icd.learning.retraining.windows import Known, Lesson
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.card import encoder_section
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
from stream_icd.registry.model import ABOUT_FILE, CARD_FILE, About

_Teacher = Literal["labels", "hindsight", "edges"]
"""`edges`: bp's parameters were learned from the edges, and the encoder nothing."""


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """A window (snapshot id) that a model was learned from, and what was used of it."""

    window: str
    by: _Teacher
    known: Known


class _Learned(NamedTuple):
    """A model, and how it was learned."""

    model: Model
    windows: tuple[LearnedFrom, ...]
    encoder: EncoderProof | None = None  # None: none was to be learned


class LearningTime(NamedTuple):
    """How long the encoder may learn: until the clock shows so many seconds."""

    until: float = inf
    clock: Callable[[], float] = time.process_time

    @property
    def left(self) -> float:
        return self.until - self.clock()


def learn(
    lessons: Sequence[Lesson],
    recipe: Recipe,
    threads: int = 1,
    checkpoints: Store | None = None,
    *,
    parent: Model | None = None,
    limit: LearningTime = LearningTime(),
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
        limit: if it is reached, what was best until then is kept.

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
        model, proof = with_edges(
            model,
            list(filter(None, taught)),
            parent=parent,
            seconds=limit.left,
            threads=threads,
            clock=limit.clock,
        )
    elif recipe.trains_encoder:
        model, proof = _trained(model, graphs, taught, threads, checkpoints, limit)
    windows = tuple(
        LearnedFrom(lesson.snapshot.id, by, lesson.known)
        for lesson, one in zip(lessons, taught, strict=True)
        if (by := _by(lesson, one, used, by_labels=by_labels)) is not None
    )
    return _Learned(model, windows, proof)


def _taught(lessons: Sequence[Lesson], seed: int) -> list[Taught | None]:
    """What the encoder can learn from each window."""
    graphs = [lesson.graph(by_labels=False) for lesson in lessons]
    labels = [lesson.labels for lesson in lessons]
    has_labels = 2 * sum(known is not None for known in labels) > len(lessons)
    found = labels if has_labels else in_hindsight(graphs, seed)
    return [
        Taught(graph, known, "labels" if has_labels else "hindsight")
        if known is not None and graph.adjacency.nnz
        else None
        for graph, known in zip(graphs, found, strict=True)
    ]


def _by(
    lesson: Lesson, taught: Taught | None, used: Sequence[Lesson], *, by_labels: bool
) -> _Teacher | None:
    """What a window taught by; None if nothing was learned from it."""
    if taught is not None:
        return taught.by
    if not any(one is lesson for one in used):
        return None
    return "labels" if by_labels else "edges"


def _trained(
    model: Model,
    graphs: Sequence[LabelledGraph],
    taught: Sequence[Taught | None],
    threads: int,
    checkpoints: Store | None,
    limit: LearningTime,
) -> tuple[Model, EncoderProof]:
    """Train the recipe's encoder by the paper's losses."""
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
        checkpoints=checkpoints and checkpoints.below(recipe.digest()[:16]),
        threads=threads,
        seconds=limit.left,
        clock=limit.clock,
    )
    known = list(filter(None, taught))
    model, proof = with_weights(model, training.improved, known, threads)
    return model, replace(proof, stopped=not training.is_whole(recipe))


def described(
    windows: Sequence[LearnedFrom], encoder: EncoderProof | None, data: DataRange, gate: Gate
) -> dict[str, bytes]:
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
{encoder_section(encoder)}
## What was used of each window

`labels`: its known communities. `hindsight`: the communities that were found in it with the windows
before and after it, for the encoder; its edges for the numbers of bp. `edges`: only its edges.

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
