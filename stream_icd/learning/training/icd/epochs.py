"""The history of a training run, by epoch, and its plot."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO

from stream_icd.core.imports import needs_extra


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of training; epoch 0 is the untrained model and has no losses."""

    number: int
    validation: float  # mean score on the validation graphs after the epoch, 0 to 1
    losses: dict[str, float]  # mean of each loss over the steps, before weighting (`_TITLES`)
    seconds: float  # with the validation


History = tuple[Epoch, ...]


def best_epoch(history: History) -> Epoch:
    """The epoch with the highest validation score; of equal ones, the first."""
    return max(history, key=lambda epoch: (epoch.validation, -epoch.number))


_TITLES = {
    "discriminator": "loss of D",
    "adversarial": "AL: adversarial",
    "reconstruction": "FR: reconstruction",
    "regularisation": "CR: regularisation",
}


def draw_training(
    history: History, file: str | os.PathLike[str] | BinaryIO, title: str = ""
) -> None:
    """Draw loss and validation curves to a file, as PNG unless its name says another format.

    The dotted line is the untrained model, the first epoch: below it, training has not helped.
    """
    with needs_extra("plot", "matplotlib"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    figure.suptitle(title)
    grid = figure.add_gridspec(2, 4)
    axes, best = figure.add_subplot(grid[0, :]), best_epoch(history)
    scores = [epoch.validation for epoch in history]
    axes.plot([epoch.number for epoch in history], scores, marker=".", label="validation")
    axes.axhline(scores[0], linestyle=":", color="grey", label=f"untrained: {scores[0]:.4f}")
    axes.plot(best.number, best.validation, "o", label=f"kept: {best.validation:.4f}")
    axes.set(xlabel="epoch", ylabel="mean validation score")
    axes.legend()
    for column, name in enumerate(_TITLES):
        axes, trained = figure.add_subplot(grid[1, column]), history[1:]
        losses = [epoch.losses[name] for epoch in trained]
        axes.plot([epoch.number for epoch in trained], losses, marker=".")
        axes.set(xlabel="epoch", title=_TITLES[name])
    figure.savefig(file, dpi=120)
