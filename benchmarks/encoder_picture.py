"""The figure of docs/encoder.md: features, the dual GNN of the paper, and the encoder online.

    python -m benchmarks.encoder_picture

Writes docs/encoder.png. The graph has eight nodes in two communities, as the paper's example.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from benchmarks.shared.pages.sections import DOCS

BLUE, RED, GREY = "#4477aa", "#cc6677", "#888888"
FROZEN, TRAINED, JUDGE = "#dbe9f6", "#fdebd0", "#f3f3f3"

ONE, OTHER = range(4), range(4, 8)
EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 6), (5, 7), (6, 7), (3, 4)]
INDUCED = [*combinations(ONE, 2), *combinations(OTHER, 2)]
PLACES = np.array(
    [(0, 0.5), (0.35, 1), (0.35, 0), (0.75, 0.5), (1.25, 0.5), (1.65, 1), (1.65, 0), (2, 0.5)]
)


def main() -> None:
    """Draw it."""
    figure = Figure(figsize=(12, 6.6), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 15)
    axes.set_ylim(0, 8.25)
    axes.axis("off")
    _title(axes, 7.9, "Offline: two encoders with the same weights, and a discriminator between")
    _graph(axes, (0.5, 6.1), EDGES, "graph A and its structure X")
    _graph(axes, (0.5, 3.7), INDUCED, "label-induced graph A⁽ᵍ⁾ = R Rᵀ")
    _supernodes(axes, (4.0, 6.1))
    _box(axes, (7.1, 5.9), (2.2, 1.3), "encoder G\n(GCN layers)", "eq. 5", TRAINED)
    _box(axes, (7.1, 3.5), (2.2, 1.3), "encoder G\n(the same weights)", "eq. 5", TRAINED)
    _box(axes, (11.9, 4.7), (2.5, 1.3), "discriminator D", "eq. 7: whose row is it?", JUDGE)
    for y in (6.55, 4.15):
        _arrow(axes, (2.75, y), (3.75 if y > 5 else 6.95, y))
        _rows(axes, (9.95, y), mixed=y > 5)
        _arrow(axes, (9.4, y), (9.85, y))
        _arrow(axes, (11.0, y), (11.8, 5.5 if y > 5 else 5.2))
    _arrow(axes, (6.35, 6.55), (6.95, 6.55))
    _arrow(axes, (6.35, 6.3), (6.95, 4.5))
    axes.text(10.4, 7.35, "U", ha="center", fontsize=12, style="italic")
    axes.text(10.4, 3.2, "Uᵍ", ha="center", fontsize=12, style="italic")
    losses = "losses: AL, fool D (9)\nFR, rebuild X (10)\nCR, the objective (11)"
    axes.text(11.9, 6.75, losses, fontsize=10, va="center")
    axes.plot([0.3, 14.7], [2.75, 2.75], color=GREY, lw=0.8, ls=":")
    _title(axes, 2.4, "Online: one pass through the frozen encoder, then K-means")
    _graph(axes, (0.5, 0.75), EDGES, "a new graph")
    _box(axes, (3.9, 0.55), (2.3, 1.3), "features Z = X C", "algorithm 1", JUDGE)
    _box(axes, (7.1, 0.55), (2.2, 1.3), "frozen G", "algorithm 3", FROZEN)
    _rows(axes, (9.95, 1.2), mixed=False)
    _graph(axes, (12.2, 0.75), EDGES, "communities", coloured=True)
    for start, end in ((2.75, 3.8), (6.3, 7.0), (9.4, 9.85), (11.0, 12.0)):
        _arrow(axes, (start, 1.2), (end, 1.2))
    axes.text(11.5, 1.35, "K-means", ha="center", fontsize=9)
    figure.savefig(DOCS / "encoder.png")


def _title(axes: Axes, y: float, text: str) -> None:
    axes.text(0.3, y, text, fontsize=13, weight="bold", va="center")


def _graph(
    axes: Axes,
    corner: tuple[float, float],
    edges: list[tuple[int, int]],
    title: str,
    coloured: bool = False,
) -> None:
    places = PLACES * 0.95 + corner
    for i, j in edges:
        axes.plot(*places[[i, j]].T, color=GREY, lw=1.2, zorder=1)
    by_labels = coloured or edges is INDUCED
    for node, (x, y) in enumerate(places):
        colour = (BLUE if node in ONE else RED) if by_labels else "white"
        axes.scatter(x, y, s=110, color=colour, edgecolors="#333333", zorder=2)
    axes.text(corner[0] + 0.95, corner[1] - 0.28, title, ha="center", va="top", fontsize=9.5)


def _supernodes(axes: Axes, corner: tuple[float, float]) -> None:
    """The two supernodes that heavy-edge matching makes of the eight nodes."""
    for number, x in enumerate((0.4, 1.7)):
        place = corner[0] + x, corner[1] + 0.48
        axes.scatter(*place, s=900, color="white", edgecolors="#333333", zorder=2)
        nodes = "1 2\n3 4" if number == 0 else "5 6\n7 8"
        axes.text(*place, nodes, ha="center", va="center", fontsize=9)
    axes.plot(
        [corner[0] + 0.4, corner[0] + 1.7], [corner[1] + 0.48] * 2, color=GREY, lw=1.2, zorder=1
    )
    axes.text(
        corner[0] + 1.05, corner[1] - 0.28, "heavy-edge matching: C\nfeatures Z = X C",
        ha="center", va="top", fontsize=9.5,
    )  # fmt: skip


def _rows(axes: Axes, corner: tuple[float, float], mixed: bool) -> None:
    """An embedding: eight rows of four columns, clearer where communities are apart."""
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1], 4)
    centre = np.array([(0.9, 0.2, 0.7, 0.1), (0.1, 0.8, 0.2, 0.9)])[labels]
    values = centre + rng.normal(0, 0.28 if mixed else 0.05, centre.shape)
    extent = (corner[0], corner[0] + 0.95, corner[1] - 0.7, corner[1] + 0.7)
    axes.imshow(values, cmap="Blues", vmin=0, vmax=1.1, extent=extent, aspect="auto", zorder=1)


def _box(
    axes: Axes,
    corner: tuple[float, float],
    size: tuple[float, float],
    text: str,
    source: str,
    colour: str,
) -> None:
    shape = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, *size, shape, facecolor=colour, edgecolor="#555555"))
    x, y = corner[0] + size[0] / 2, corner[1] + size[1] / 2
    axes.text(x, y + 0.13, text, ha="center", va="center", fontsize=10.5)
    axes.text(x, y - 0.45, source, ha="center", va="center", fontsize=8.5, color="#555555")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#555555", "lw": 1.3})


if __name__ == "__main__":
    main()
