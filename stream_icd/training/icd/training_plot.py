"""Plot of a training run: losses and validation score."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from stream_icd.extras import needs_extra
from stream_icd.training.icd.epochs import History, best_epoch

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

    The dotted line is the untrained model: below it, training has not helped.

    Args:
        history: epochs, the untrained model first; see `Training`.
        file: a path, such as "training.png", or a binary file to write to.
        title: title of the plot.
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
