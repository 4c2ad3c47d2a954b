"""Learn a model from chosen windows, and say what it was learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from stream_icd.core.errors import NoGoodRows
from stream_icd.core.imports import needs_extra
from stream_icd.core.lineage import DataRange, Figure, Gate
from stream_icd.core.store.store import Store
from stream_icd.learning.retraining.windows import Known, Lesson
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.icd.recipe import Recipe, recipe_digest
from stream_icd.methods.model import Model
from stream_icd.registry.model import ABOUT_FILE, CARD_FILE, About


@dataclass(frozen=True, slots=True)
class LearnedFrom:
    """A window (snapshot id) that a model was learned from, and what was used of it."""

    window: str
    by: Literal["labels", "edges"]
    known: Known


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
            from stream_icd.learning.training.icd.train_encoder import train
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
