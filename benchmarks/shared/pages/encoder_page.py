"""What docs/measured/encoder.md quotes of `benchmarks.encoder_training`: table and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.shared.kept import Figures
from benchmarks.shared.spread import with_spread

Curves = Mapping[tuple[str, str], Sequence[Sequence[Figures]]]
"""The points of each seed, by data set and encoder."""

ROW = "| {} | {} | {} | {} | {} | {} | {} | {} |\n"
LINES = {
    "test": ("test graphs", "-", "C0"),
    "training": ("training graphs", "--", "C1"),
    "induced": ("label-induced embedding (NMI)", ":", "C2"),
}


def encoder_table(curves: Curves) -> str:
    """A row for each data set and encoder: means over seeds ± their standard deviation."""
    head = ROW.format(
        "graphs",
        "encoder",
        "steps",
        "untrained",
        "after the last step",
        "kept on validation",
        "gain of the kept",
        "training graphs, last",
    )
    return (
        head
        + ROW.format(*8 * ["---"])
        + "".join(_row(name, encoder, seeds) for (name, encoder), seeds in curves.items())
    )


def _row(name: str, encoder: str, seeds: Sequence[Sequence[Figures]]) -> str:
    first = np.array([points[0]["test"] for points in seeds])
    last = np.array([points[-1]["test"] for points in seeds])
    kept = np.array([max(points, key=lambda one: one["validation"])["test"] for points in seeds])
    seen = np.array([points[-1]["training"] for points in seeds])
    steps = [points[-1]["steps"] for points in seeds]
    gain = kept - first
    sign = "+" if np.mean(gain) >= 0 else ""
    means = map(with_spread, (first, last, kept))
    return ROW.format(
        name,
        encoder,
        least_to_most(steps),
        *means,
        sign + with_spread(gain),
        with_spread(seen),
    )


def least_to_most(steps: Sequence[int]) -> str:
    """The steps of some seeds: one number if they are the same."""
    return " to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)}))


def draw_curves(curves: Curves, path: Path) -> None:
    """Quality over steps: a column a data set, a row an encoder; a line for each seed."""
    names = list(dict.fromkeys(name for name, _ in curves))
    encoders = list(dict.fromkeys(encoder for _, encoder in curves))
    figure, grid = plt.subplots(
        len(encoders),
        len(names),
        figsize=(3 * len(names), 2.3 * len(encoders)),
        squeeze=False,
        layout="constrained",
    )
    for row, encoder in zip(grid, encoders, strict=True):
        for panel, name in zip(row, names, strict=True):
            if (name, encoder) in curves:
                _draw_panel(panel, curves[name, encoder])
                panel.set_title(f"{name}: {encoder}", fontsize=9)
            else:
                panel.set_visible(False)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _draw_panel(panel: Axes, seeds: Sequence[Sequence[Figures]]) -> None:
    for number, points in enumerate(seeds):
        steps = [point["steps"] for point in points]
        for key, (label, style, colour) in LINES.items():
            scores = [point[key] for point in points]
            known = label if number == 0 else None
            panel.plot(steps, scores, style, color=colour, linewidth=1, label=known)
    panel.axhline(
        np.mean([points[0]["test"] for points in seeds]), color="grey", linewidth=0.8, zorder=0
    )
    panel.set(xlabel="steps", ylim=(0, 104))
