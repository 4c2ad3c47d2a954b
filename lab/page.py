"""docs/lab.md from the rows of a run: quality, time, and the trade-off, beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from lab.packages import PACKAGES
from lab.paper.published import IN_PERCENT, means, printed_scores
from lab.results import Row
from stream_icd.evaluation.discover import methods_in
from stream_icd.quality.tos import Measure, trade_off_scores

PUBLISHED_AS = {
    "snmf": "SNMF",
    "spectral": "SC",
    "graclus": "GraClus",
    "mc-sbm": "MC-SBM",
    "locale": "Locale",
    "node2vec": "N2V",
    "m-nmf": "M-NMF",
    "randne": "RandNE",
    "nrp": "NRP",
    "prone": "ProNE",
    "icd": "ICD-M",
    "icd-c": "ICD-C",
}
"""The paper's name of a method. Its ICD is trained, ours here is not."""

APART = 3.0
"""Points of difference from the published value that the page marks."""

INTRODUCTION = """# Methods side by side

For those who choose a method, or compare with the paper: other people's methods and ours on the
same graphs. Made by `python -m lab --data FOLDER`; lab/README.md says what each method is, and
which are missing. The rows are in `lab/results.parquet`, with versions and machine.

All methods are given the number of communities, or ignore it: the true one, or Louvain's where the
true communities are unknown. Figures are means over the test graphs. Each method runs on one
thread; time is processor time, without the conversion to a library's own graph and without
learning.

column | meaning
--- | ---
NMI, AC, AMI, ARI | agreement with the true communities, percent; AMI and ARI adjust for chance
Q | modularity, percent
NCut | by the paper's equation, and as its tables have it
K | mean number of communities found
MB | memory at its peak, beyond what the process had before
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

OF_ROW: dict[Measure, str] = {
    "nmi": "nmi",
    "ac": "ac",
    "modularity": "modularity",
    "ncut": "ncut_within",
}
"""The column of the rows that holds a published measure."""

TITLES: dict[Measure, str] = {"nmi": "NMI", "ac": "AC", "modularity": "modularity", "ncut": "NCut"}


def page(rows: Sequence[Row]) -> str:
    """The whole page in Markdown."""
    data_sets, methods = _in_order(rows, "data_set"), _in_order(rows, "method")
    machines = sorted({row.machine for row in rows})
    parts = [INTRODUCTION, f"Measured on {'; '.join(machines)}.", ""]
    parts += [*_not_yet(data_sets, methods), "## Quality and time", ""]
    for name in data_sets:
        parts += _quality(name, [row for row in rows if row.data_set == name], methods)
    parts += _beside_the_paper(rows, data_sets, methods)
    parts += _trade_off(rows, data_sets, methods)
    return "\n".join(parts)


def _not_yet(data_sets: Sequence[str], methods: Sequence[str]) -> list[str]:
    """What a full run has, and these rows do not."""
    of_paper = dict.fromkeys(data_set for _, _, data_set in means())
    without = {
        "Data sets": [name for name in of_paper if name not in data_sets],
        "Methods": [name for name in methods_in(*PACKAGES) if name not in methods],
    }
    return [
        f"{kind} of the lab that are not measured yet: {', '.join(names)}.\n"
        for kind, names in without.items()
        if names
    ]


def _quality(name: str, rows: Sequence[Row], methods: Sequence[str]) -> list[str]:
    n_graphs = len({row.graph for row in rows})
    lines = [f"### {name}, {n_graphs} graphs", "", *_head(["method", *(c[0] for c in COLUMNS)])]
    failed = []
    for method in methods:
        of_method = [row for row in rows if row.method == method]
        ok = [row for row in of_method if row.status == "ok"]
        if ok:
            cells = [_cell(ok, *column[1:]) for column in COLUMNS]
            count = "" if len(ok) == n_graphs else f" ({len(ok)} graphs)"
            lines.append(_line([method + count, *cells]))
        failed += [row for row in of_method if row.status not in ("ok", "missing")]
    notes = [f"- {row.method}, graph {row.graph}: {row.status}, {row.detail}" for row in failed]
    return [*lines, "", *notes, *([""] if notes else [])]


def _beside_the_paper(
    rows: Sequence[Row], data_sets: Sequence[str], methods: Sequence[str]
) -> list[str]:
    """Ours, the published mean and the difference, for each measure of the paper."""
    published = means()
    lines = [
        "## Beside the published values",
        "",
        "Ours, the published value in parentheses, and the difference. Ours stands for the same "
        "method run here; ICD is not trained here. A difference of more than "
        f"{APART:.0f} points is bold, except for NCut, whose scale depends on single nodes.",
        "",
    ]
    for measure in OF_ROW:
        factor = 100 if measure in IN_PERCENT else 1

        def text(name: str, method: str, measure: Measure = measure, factor: int = factor) -> str:
            ours = _mean(rows, name, method, OF_ROW[measure])
            theirs = published.get((measure, PUBLISHED_AS.get(method, ""), name))
            if ours is None or theirs is None:
                return ""
            apart = factor * ours - theirs
            marked = abs(apart) > APART and measure != "ncut"
            return f"{factor * ours:.1f} ({theirs:.1f}) " + (
                f"**{apart:+.1f}**" if marked else f"{apart:+.1f}"
            )

        lines += _matrix(TITLES[measure], data_sets, methods, text)
    return lines


def _trade_off(rows: Sequence[Row], data_sets: Sequence[str], methods: Sequence[str]) -> list[str]:
    """TOS as if ours stood in the paper's tables, beside the printed score."""
    printed = printed_scores()
    lines = [
        "## Trade-off scores",
        "",
        "TOS as the paper defines it (`stream_icd.quality.tos`), the printed score in parentheses, "
        "and the difference. Ours are computed as if they stood in the paper's tables: the slowest "
        "method and the highest NCut are those of both together. The machines differ: one thread "
        "here, a server with 48 cores and a GPU there. Methods that the paper does not have show "
        "our score alone.",
        "",
    ]
    for measure in OF_ROW:
        scores = {name: _scores(rows, name, methods, measure) for name in data_sets}

        def text(
            name: str,
            method: str,
            measure: Measure = measure,
            scores: dict[str, dict[str, float]] = scores,
        ) -> str:
            ours = scores[name].get(method)
            if ours is None:
                return ""
            theirs = printed.get((measure, PUBLISHED_AS.get(method, ""), name))
            return f"{ours:.2f}" + (
                "" if theirs is None else f" ({theirs:.2f}) {ours - theirs:+.2f}"
            )

        lines += _matrix(TITLES[measure], data_sets, methods, text)
    return lines


def _scores(
    rows: Sequence[Row], name: str, methods: Sequence[str], measure: Measure
) -> dict[str, float]:
    found: dict[str, tuple[float, float]] = {}
    for method in methods:
        quality = _mean(rows, name, method, OF_ROW[measure])
        seconds = _mean(rows, name, method, "seconds")
        if quality is not None and seconds:
            found[method] = (quality, seconds)
    if not found:
        return {}
    qualities, times = np.array([*found.values(), *_published_points(name, measure)]).T
    scores = trade_off_scores(qualities, times, measure)
    return dict(zip(found, scores.tolist(), strict=False))


def _published_points(name: str, measure: Measure) -> list[tuple[float, float]]:
    """Quality as a fraction and seconds of each method of the paper on a data set."""
    published, factor = means(), 0.01 if measure in IN_PERCENT else 1.0
    return [
        (factor * value, published["seconds", method, name])
        for (of, method, where), value in published.items()
        if (of, where) == (measure, name)
    ]


def _matrix(
    title: str,
    data_sets: Sequence[str],
    methods: Sequence[str],
    text: Callable[[str, str], str],
) -> list[str]:
    """Methods by data sets, without rows and columns that are empty."""
    known = {(m, n): text(n, m) for m in methods for n in data_sets}
    columns = [n for n in data_sets if any(known[m, n] for m in methods)]
    lines = [
        _line([method, *(known[method, name] for name in columns)])
        for method in methods
        if any(known[method, name] for name in columns)
    ]
    return [f"### {title}", "", *_head(["method", *columns]), *lines, ""] if lines else []


def _mean(rows: Sequence[Row], name: str, method: str, column: str) -> float | None:
    values = [
        getattr(row, column)
        for row in rows
        if (row.data_set, row.method, row.status) == (name, method, "ok")
    ]
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def _cell(rows: Sequence[Row], column: str, factor: float, form: str) -> str:
    values = [getattr(row, column) for row in rows if getattr(row, column) is not None]
    return f"{factor * float(np.mean(values)):{form}}" if values else ""


def _in_order(rows: Iterable[Row], column: str) -> list[str]:
    return list(dict.fromkeys(getattr(row, column) for row in rows))


def _head(names: Sequence[str]) -> list[str]:
    return [_line(names), _line(["---"] * len(names))]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
