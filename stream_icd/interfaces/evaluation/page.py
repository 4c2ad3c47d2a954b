"""The files of an evaluation: one HTML page with the table and the picture, and these alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from io import StringIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.table import Table

from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import printable, safe_cells
from stream_icd.core.store.whole_file import whole_file, writing
from stream_icd.interfaces.evaluation.evaluate import Measures, WindowResult

_COLUMNS: tuple[tuple[str, str, str], ...] = (
    (
        "hidden_edges",
        ".3f",
        "how well the communities predict them, in bits per edge; higher is better",
    ),
    ("modularity", ".4f", "higher is better"),
    ("ncut", ".3f", "normalised cut; lower is better"),
    ("stability", ".1%", "common nodes that keep their community from window to window"),
    ("nmi", ".4f", "agreement with the known communities, where there are some"),
    ("n_communities", ".1f", "number of communities"),
    ("seconds", ".4f", "processor time of a window"),
)
"""Value of a result, its format, and what it means."""

_TEXTS = ("method", "snapshot", "status", "detail")
_NUMBERS = ("seconds", "hidden_edges", "stability", *(field.name for field in fields(Measures)))
"""Columns; the numbers of a window without a result are empty fields."""

_FORMATS = (".png", ".svg", ".pdf")  # endings of the name of a picture's file
_PANELS = ("hidden_edges", "modularity", "stability", "seconds")  # the values that are drawn

_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours of Okabe and Ito, which colour-blind readers can tell apart."""

REFRESH_S = 5  # interval at which a browser loads the page anew while windows are missing

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child, td.why { text-align: left; }
svg { max-width: 100%; height: auto; }
dt { font-weight: 600; }
"""


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """What an evaluation writes: an HTML page and, if wanted, a CSV file and the picture alone.

    Raises:
        BadSettings: two of them are one file, or a picture has a name of none of the `_FORMATS`.
    """

    page: Path
    csv: Path | None = None
    picture: Path | None = None

    def __post_init__(self) -> None:
        if len({path.resolve() for path in self.paths}) < len(self.paths):
            raise BadSettings("give --out, --csv and --picture different files")
        if self.picture is not None and self.picture.suffix not in _FORMATS:
            formats = ", ".join(_FORMATS)
            raise BadSettings(f"a picture ends in {formats}, not {self.picture.name!r}")

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.page, self.csv, self.picture) if path is not None]

    def write(
        self, graph: str, results: Sequence[WindowResult], n_windows: int, notes: Sequence[str] = ()
    ) -> None:
        """Write each file as it is now; the page loads itself anew until all windows are there.

        notes: paragraphs above its table.
        """
        # The page first: it shows what there is even if another file cannot be written.
        _write_page(self.page, graph, results, n_windows, notes)
        if self.csv is not None:
            _write_rows(self.csv, results)
        if self.picture is not None:
            with writing(self.picture), whole_file(self.picture) as aside:
                form = self.picture.suffix[1:]
                _figure_of(results).savefig(aside, format=form, dpi=120)


def table_of(results: Sequence[WindowResult]) -> Table:
    """Return a row for each method, for a terminal."""
    table = Table("method", *(name for name, _, _ in _COLUMNS), "windows", "", box=None)
    for row in _rows(results):
        table.add_row(*row)
    return table


def _rows(results: Sequence[WindowResult]) -> list[list[str]]:
    """Return a row for each method, in the order in which they appear.

    Its name, the means of `_COLUMNS` or "", the number of windows with a result, and why a window
    lacks one, or its agreement, the first time.
    """
    of_method = defaultdict[str, list[WindowResult]](list)
    for result in results:
        of_method[result.method].append(result)
    rows = []
    for method, of_windows in of_method.items():
        cells = []
        for name, form, _ in _COLUMNS:
            values = [value for result in of_windows if (value := result.value(name)) is not None]
            cells.append(f"{np.mean(values):{form}}" if values else "")
        windows = sum(result.measures is not None for result in of_windows)
        failed_first = sorted(of_windows, key=lambda result: result.measures is not None)
        detail = next((result.detail for result in failed_first if result.detail), "")
        rows.append([method, *cells, str(windows), printable(detail)])
    return rows


def _write_rows(path: Path, results: Sequence[WindowResult]) -> None:
    columns = {
        name: pa.array([getattr(result, name) for result in results], pa.string())
        for name in _TEXTS
    }
    columns |= {
        name: pa.array([result.value(name) for result in results], pa.float64())
        for name in _NUMBERS
    }
    with writing(path), whole_file(path) as aside:
        pyarrow.csv.write_csv(safe_cells(pa.table(columns)), aside)


def _write_page(
    path: Path, graph: str, results: Sequence[WindowResult], n_windows: int, notes: Sequence[str]
) -> None:
    n_done = len({result.snapshot for result in results})
    done = n_done >= n_windows
    refresh = "" if done else f'<meta http-equiv="refresh" content="{REFRESH_S}">\n'
    title = f"Methods on {escape(printable(graph))}"
    terms = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>\n" for name, _, meaning in _COLUMNS)
    text = (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n{refresh}'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n<h1>{title}</h1>\n"
        f'<p><progress value="{n_done}" max="{n_windows}"></progress> '
        f"{n_done} of {n_windows} windows</p>\n"
        f"{''.join(f'<p>{escape(printable(note))}</p>' for note in notes)}\n"
        f"{_table(_rows(results))}\n{_svg(results)}\n<dl>\n{terms}</dl>\n</html>\n"
    )
    with writing(path), whole_file(path) as aside:
        aside.write_text(text, encoding="utf-8")


def _figure_of(results: Sequence[WindowResult]) -> Figure:
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    axes: Any = figure.subplots(2, 2)
    with_result = (result.method for result in results if result.measures is not None)
    methods = list(dict.fromkeys(with_result))
    for panel, name in zip(axes.flat, _PANELS, strict=True):
        _draw(panel, name, results, methods)
    if methods:
        lines, names = axes.flat[0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside lower center", ncols=len(methods))
    return figure


def _draw(panel: Axes, name: str, results: Sequence[WindowResult], methods: Sequence[str]) -> None:
    snapshots = dict.fromkeys(result.snapshot for result in results)
    places = {snapshot: place for place, snapshot in enumerate(snapshots)}
    for method, colour in zip(methods, cycle(_COLOURS), strict=False):
        values = [
            (places[result.snapshot], value)
            for result in results
            if result.method == method and (value := result.value(name)) is not None
        ]
        x, y = zip(*values, strict=True) if values else ((), ())
        panel.plot(x, y, marker=".", color=colour, label=method)
    panel.set(title=name, xlabel="window", xlim=(-0.5, max(len(places), 1) - 0.5))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    if name == "seconds":
        panel.set_yscale("log")
    panel.grid(alpha=0.3)


def _svg(results: Sequence[WindowResult]) -> str:
    sink = StringIO()
    _figure_of(results).savefig(sink, format="svg", metadata={"Date": None})
    svg = sink.getvalue()
    return svg[svg.index("<svg") :]


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("method", *(c[0] for c in _COLUMNS), ""))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in (method, *cells))
        + f'<td class="why">{escape(why)}</td></tr>\n'
        for method, *cells, _, why in rows
    )
    return f"<table>\n<tr>{head}</tr>\n{body}</table>"
