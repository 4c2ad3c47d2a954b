"""The figure of docs/method.md: the steps of a window, each with the function that does it.

    python -m benchmarks.window_steps

Writes docs/window_steps.png.
"""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from benchmarks.shared.pages.sections import DOCS

WIDTH, HEIGHT = 3.3, 1.15
KNOWN, DONE, JUDGED = "#dbe9f6", "#f3f3f3", "#fdebd0"


class Step(NamedTuple):
    """A box: its column and row, what happens, which function does it, and its colour."""

    place: tuple[int, int]
    text: str
    function: str
    colour: str = DONE


STEPS = {
    "state": Step(
        (0, 0), "state of the graph: sums A,\nbeliefs, ids, who leads", "memory.Memory", KNOWN
    ),
    "window": Step((1, 0), "window: edges B", "detect.detect_window", KNOWN),
    "aligned": Step((1, 1), "the nodes of both", "nodes.aligned"),
    "broken": Step(
        (3, 1),
        "nothing in common, damaged,\nor a break?",
        "likelihood.broken\nnodes.lacks_most",
        JUDGED,
    ),
    "judged": Step(
        (1, 2),
        "nats saved on the new edges:\nwhich hypothesis leads",
        "judge.judged\njudge.leader_of",
        JUDGED,
    ),
    "evidence": Step((2, 4), "a sum: A ← λ A + B", "sums._added"),
    "searched": Step(
        (2, 5), "its last communities, or,\nif its pause is over, a search", "sums.searched"
    ),
    "born": Step((1, 3), "the filter: strangers propose\ncommunities", "posterior.next_posterior"),
    "believed": Step(
        (1, 4), "beliefs, with the prior (8);\nμ and η are learned", "belief_propagation.believe"
    ),
    "merged": Step(
        (1, 5),
        "unite and divide communities",
        "partition.merged_communities\npartition.split_communities",
    ),
    "named": Step((1, 6), "stable ids", "changes.ids_for"),
    "anew": Step((3, 5), "found as in a single graph", "find._least_description"),
    "kept": Step(
        (0, 6),
        "rounded, bounded, encoded",
        "sums._kept, nodes.bounded\nencoding.encode_memory",
        KNOWN,
    ),
    "result": Step(
        (2, 6), "result: communities, ids,\nhorizon, predicted bits", "detect.Remembered", KNOWN
    ),
}

ARROWS = (
    ("state", "aligned"), ("window", "aligned"), ("aligned", "broken"), ("aligned", "judged"),
    ("judged", "evidence"), ("judged", "born"), ("evidence", "searched"), ("searched", "named"),
    ("born", "believed"), ("believed", "merged"),
    ("merged", "named"), ("broken", "anew"), ("anew", "named"), ("named", "kept"),
    ("named", "result"), ("kept", "state"),
)  # fmt: skip


def main() -> None:
    """Draw it."""
    figure = Figure(figsize=(15.4, 10.7), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-0.3, 15.3)
    axes.set_ylim(-10.8, 0.3)
    axes.axis("off")
    for step in STEPS.values():
        _box(axes, step)
    for source, target in ARROWS:
        _arrow(axes, STEPS[source], STEPS[target])
    axes.text(13.6, -5.0, "alone", fontsize=9, style="italic")
    axes.text(0.15, -5.2, "for the next\nwindow", fontsize=9, style="italic")
    figure.savefig(DOCS / "window_steps.png")


def _centre(step: Step) -> tuple[float, float]:
    return 3.9 * step.place[0] + WIDTH / 2, -1.56 * step.place[1] - HEIGHT / 2


def _box(axes: Axes, step: Step) -> None:
    x, y = _centre(step)
    corner = x - WIDTH / 2, y - HEIGHT / 2
    shape = "round,pad=0,rounding_size=0.12"
    axes.add_patch(
        FancyBboxPatch(corner, WIDTH, HEIGHT, shape, facecolor=step.colour, edgecolor="#555555")
    )
    axes.text(x, y + 0.22, step.text, ha="center", va="center", fontsize=10.5)
    axes.text(x, y - 0.33, step.function, ha="center", va="center", fontsize=8, family="monospace")


def _arrow(axes: Axes, source: Step, target: Step) -> None:
    """From side to side if the boxes are in one row, else from below to above."""
    (x, y), (to_x, to_y) = _centre(source), _centre(target)
    if source.place[1] == target.place[1]:
        sign = 1 if to_x > x else -1
        start, end = (x + sign * WIDTH / 2, y), (to_x - sign * WIDTH / 2, to_y)
    else:
        sign = 1 if to_y > y else -1
        start, end = (x, y + sign * HEIGHT / 2), (to_x, to_y - sign * HEIGHT / 2)
        if abs(to_x - x) > WIDTH:
            end = (to_x - (1 if to_x > x else -1) * 0.8, end[1])
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#555555", "lw": 1.3})


if __name__ == "__main__":
    main()
