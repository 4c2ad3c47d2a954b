"""The history of a training run, by epoch, and its plot."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from stream_icd.extras import needs_extra


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of training; epoch 0 is the untrained model and has no losses.

    Attributes:
        validation: mean score on the validation graphs after the epoch, 0 to 1.
        losses: mean of each loss over the epoch's steps, before weighting: "discriminator",
            "adversarial", "reconstruction" and "regularisation".
        seconds: with the validation.
    """

    number: int
    validation: float
    losses: dict[str, float]
    seconds: float


History = tuple[Epoch, ...]


def best_epoch(history: History) -> Epoch:
    """The epoch with the highest validation score; of equal ones, the first."""
    return max(history, key=lambda epoch: (epoch.validation, -epoch.number))


def history_to_json(history: History) -> str:
    """The history as a JSON array."""
    return json.dumps([asdict(epoch) for epoch in history])


def history_from_json(text: str) -> History:
    """Read what `history_to_json` wrote."""
    return tuple(Epoch(**epoch) for epoch in json.loads(text))


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
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    grid = figure.add_gridspec(2, 4)
    _draw_validation(figure.add_subplot(grid[0, :]), history)
    for column, name in enumerate(_TITLES):
        _draw_loss(figure.add_subplot(grid[1, column]), history, name)
    figure.savefig(file, dpi=120)


def _draw_validation(axes: Any, history: History) -> None:
    scores = [epoch.validation for epoch in history]
    best = best_epoch(history)
    axes.plot([epoch.number for epoch in history], scores, marker=".", label="validation")
    axes.axhline(scores[0], linestyle=":", color="grey", label=f"untrained: {scores[0]:.4f}")
    axes.plot(best.number, best.validation, "o", label=f"kept: {best.validation:.4f}")
    axes.set(xlabel="epoch", ylabel="mean validation score")
    axes.legend()


def _draw_loss(axes: Any, history: History, name: str) -> None:
    trained = [epoch for epoch in history if name in epoch.losses]
    numbers = [epoch.number for epoch in trained]
    axes.plot(numbers, [epoch.losses[name] for epoch in trained], marker=".")
    axes.set(xlabel="epoch", title=_TITLES[name])
