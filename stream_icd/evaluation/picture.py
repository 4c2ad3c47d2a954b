"""The picture of an evaluation: each method over the windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stream_icd.errors import BadSettings
from stream_icd.evaluation.evaluate import Result, value_of
from stream_icd.store.whole_file import whole_file

PANELS = ("hidden_edges", "modularity", "stability", "seconds")
"""The values that are drawn."""

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can tell apart."""

FORMATS = (".png", ".svg", ".pdf")
"""Endings of the name of a picture's file."""


def check_format(path: Path) -> None:
    """Raise BadSettings unless the file's name has one of the `FORMATS`."""
    if path.suffix not in FORMATS:
        raise BadSettings(f"a picture ends in {', '.join(FORMATS)}, not {path.name!r}")


def write_picture(path: Path, results: Sequence[Result]) -> None:
    """Write the picture, in the format that the file's name tells."""
    check_format(path)
    with whole_file(path) as aside:
        figure_of(results).savefig(aside, format=path.suffix[1:], dpi=120)


def figure_of(results: Sequence[Result]) -> Figure:
    """Score on hidden edges, modularity, stability and time of each method over the windows."""
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(2, 2)
    methods = list(dict.fromkeys(one.method for one in results if one.measures is not None))
    for panel, name in zip(axes.flat, PANELS, strict=True):
        _draw(panel, name, results, methods)
    if methods:
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(methods))
    return figure


def _draw(panel: Axes, name: str, results: Sequence[Result], methods: Sequence[str]) -> None:
    places = {one: place for place, one in enumerate(dict.fromkeys(r.snapshot for r in results))}
    for method, colour in zip(methods, cycle(COLOURS), strict=False):
        values = [
            (places[one.snapshot], value)
            for one in results
            if one.method == method and (value := value_of(one, name)) is not None
        ]
        x, y = zip(*values, strict=True) if values else ((), ())
        panel.plot(x, y, marker=".", color=colour, label=method)
    panel.set(title=name, xlabel="window", xlim=(-0.5, max(len(places), 1) - 0.5))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if name == "seconds":
        panel.set_yscale("log")
    panel.grid(alpha=0.3)
