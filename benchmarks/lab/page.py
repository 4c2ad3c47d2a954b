"""docs/measured/lab.md from the rows of a run: a summary and a picture, then the whole tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.lab.beside_the_paper import beside_the_paper, trade_off
from benchmarks.lab.first import how_often_first
from benchmarks.lab.markdown import head, line
from benchmarks.lab.measured import Measured, measured
from benchmarks.lab.packages import lab_methods
from benchmarks.lab.paper.published import means
from benchmarks.lab.results import Row
from benchmarks.lab.stages import seconds_by_stage

DIFFERENCES = Path(__file__).parent / "differences.md"
"""Why some figures differ from the published ones; written by hand."""

PICTURE = "lab.png"
"""File beside the page."""

INTRODUCTION = """# Methods side by side

For those who choose a method, or compare with the paper: other people's methods and ours on the
same graphs. Made by `python -m benchmarks.lab --data FOLDER`; benchmarks/lab/README.md says what
each method is. The rows are in `benchmarks/lab/results.parquet`, with versions and machine. What
each part of the paper's method is worth, and how training converges: [encoder](encoder.md).

All methods are given the number of communities, or ignore it: the true one, or Louvain's where the
true communities are unknown. Figures are means over the test graphs. Each method runs on one
thread; time is processor time, without the conversion to a library's own graph and without
learning. `bp` and others that learn do so from 10 other graphs of a planted family, `bp-unlabelled`
and `bp-alone` from 3 without their communities; on real data, from none.
"""

MEANINGS = """| column | meaning |
| --- | --- |
| NMI, AC, AMI, ARI | agreement with the true communities, percent; AMI and ARI adjust for chance |
| Q | modularity, percent |
| NCut | by the paper's equation, and as its tables have it |
| K | mean number of communities found |
| MB | memory at its peak, beyond what the process had before |

Means over the test graphs, with the standard deviation where it is of interest. A method that ran
on fewer graphs has their number in parentheses.
"""

COLUMNS: list[tuple[str, str, float, str]] = [
    ("NMI", "nmi", 100, ".2f"),
    ("AC", "ac", 100, ".2f"),
    ("AMI", "ami", 100, ".2f"),
    ("ARI", "ari", 100, ".2f"),
    ("Q", "modularity", 100, ".2f"),
    ("NCut", "ncut", 1, ".2f"),
    ("NCut, tables", "ncut_within", 1, ".1f"),
    ("K", "k_found", 1, ".1f"),
    ("seconds", "seconds", 1, ".3f"),
    ("MB", "peak_bytes", 1e-6, ".0f"),
]
"""Heading, column of the rows, factor and format."""

WITH_SPREAD = ("nmi", "ac", "modularity")
"""Columns that show the standard deviation over the graphs too."""


def page(rows: Sequence[Row]) -> str:
    """The whole page in Markdown; it shows `PICTURE`."""
    found = measured(rows)
    machines = sorted({row.machine for row in rows})
    parts = [INTRODUCTION, f"Measured on {'; '.join(machines)}.", ""]
    parts += _not_yet(found.data_sets, found.methods)
    parts += how_often_first(found)
    parts += _picture(found)
    parts += seconds_by_stage(found)
    parts += beside_the_paper(found)
    parts += [DIFFERENCES.read_text(encoding="utf-8")]
    parts += ["## Quality and time", "", MEANINGS]
    for name in found.data_sets:
        parts += _quality(name, [row for row in rows if row.data_set == name], found.methods)
    parts += trade_off(found)
    return "\n".join(parts)


def _picture(found: Measured) -> list[str]:
    return [
        "## Quality against time",
        "",
        "NMI where the true communities are known, else modularity, on the graphs on which every "
        "method ran. The grey line joins the methods that are better than all faster ones, by half "
        "a point or more; they are named, and so are `bp` and `icd`.",
        "",
        f"![Quality against time of each method, on {len(found.data_sets)} data sets]({PICTURE})",
        "",
    ]


def _not_yet(data_sets: Sequence[str], methods: Sequence[str]) -> list[str]:
    """What a full run has, and these rows do not."""
    of_paper = dict.fromkeys(data_set for _, _, data_set in means())
    without = {
        "Data sets": [name for name in of_paper if name not in data_sets],
        "Methods": [name for name in lab_methods() if name not in methods],
    }
    return [
        f"{kind} of the lab that are not measured yet: {', '.join(names)}.\n"
        for kind, names in without.items()
        if names
    ]


def _quality(name: str, rows: Sequence[Row], methods: Sequence[str]) -> list[str]:
    n_graphs = len({row.graph for row in rows})
    lines = [f"### {name}, {n_graphs} graphs", "", *head(["method", *(c[0] for c in COLUMNS)])]
    failed = []
    for method in methods:
        of_method = [row for row in rows if row.method == method]
        ok = [row for row in of_method if row.status == "ok"]
        if ok:
            cells = [_cell(ok, *column[1:]) for column in COLUMNS]
            count = "" if len(ok) == n_graphs else f" ({len(ok)})"
            lines.append(line([method + count, *cells]))
        failed += [row for row in of_method if row.status not in ("ok", "missing")]
    return [*lines, "", *_notes(failed)]


def _notes(failed: Sequence[Row]) -> list[str]:
    """A line for each way in which a method failed, and an empty one."""
    graphs: dict[tuple[str, str, str], list[int]] = {}
    for row in failed:
        graphs.setdefault((row.method, row.status, row.detail), []).append(row.graph)
    notes = [
        f"- {method}, graph {', '.join(map(str, numbers))}: {status}, {detail}"
        for (method, status, detail), numbers in graphs.items()
    ]
    return [*notes, ""] if notes else []


def _cell(rows: Sequence[Row], column: str, factor: float, form: str) -> str:
    values = [getattr(row, column) for row in rows if getattr(row, column) is not None]
    if not values:
        return ""
    mean = f"{factor * float(np.mean(values)):{form}}"
    if column in WITH_SPREAD and len(values) > 1:
        return f"{mean} ± {factor * float(np.std(values, ddof=1)):{form}}"
    return mean
