"""What was measured, by data set, method and graph; means over graphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.lab.paper.published import IN_PERCENT, means
from benchmarks.lab.results import Row
from benchmarks.lab.tos import Measure, trade_off_scores

OF_ROW: dict[Measure, str] = {
    "nmi": "nmi",
    "ac": "ac",
    "modularity": "modularity",
    "ncut": "ncut_within",
}
"""The column of the rows that holds a published measure."""

TITLES: dict[Measure, str] = {"nmi": "NMI", "ac": "AC", "modularity": "modularity", "ncut": "NCut"}

PUBLISHED_AS = {
    "snmf": "SNMF",
    "spectral": "SC",
    "graclus": "GraClus",
    "mc-sbm": "MC-SBM",
    "locale": "Locale",
    "node2vec": "N2V",
    "m-nmf": "M-NMF",
    "dnr": "DNR",
    "necs": "NECS",
    "randne": "RandNE",
    "nrp": "NRP",
    "prone": "ProNE",
    "graphsage-constant": "GSAGE",
    "gat-constant": "GAT",
    "gin-constant": "GIN",
    "gap": "GAP",
    "clusnet": "ClusNet",
    "lgnn": "LGNN",
    "icd": "ICD-M",
    "icd-c": "ICD-C",
}
"""The paper's name of a method. Its ICD is trained, ours here is not; its GraphSAGE, GAT and GIN
are those with constant features.
"""


@dataclass(frozen=True, eq=False)
class Measured:
    """The rows that have a result, in the order of data sets, methods and graphs."""

    of: Mapping[tuple[str, str], Mapping[int, Row]]
    data_sets: Sequence[str]
    methods: Sequence[str]

    def mean(
        self, data_set: str, method: str, column: str, graphs: Collection[int] | None = None
    ) -> float | None:
        """Mean over the graphs, or these of them, that have a value; None if none has."""
        of_graph = self.values(data_set, method, column)
        values = [value for n, value in of_graph.items() if graphs is None or n in graphs]
        return float(np.mean(values)) if values else None

    def common_graphs(self, data_set: str, *methods: str) -> set[int]:
        """Graphs on which these methods all ran; without any: all that ran on one."""
        those = methods or [method for name, method in self.of if name == data_set]
        graphs = [set(self.of.get((data_set, method), {})) for method in those]
        return set.intersection(*graphs) if graphs else set()

    def values(self, data_set: str, method: str, column: str) -> dict[int, float]:
        """Value by graph."""
        rows = self.of.get((data_set, method), {})
        found: dict[int, Any] = {graph: getattr(row, column) for graph, row in rows.items()}
        return {graph: value for graph, value in found.items() if value is not None}


def measured(rows: Iterable[Row]) -> Measured:
    """Arrange rows."""
    of: dict[tuple[str, str], dict[int, Row]] = {}
    data_sets: dict[str, None] = {}
    methods: dict[str, None] = {}
    for row in rows:
        data_sets[row.data_set] = methods[row.method] = None
        if row.status == "ok":
            of.setdefault((row.data_set, row.method), {})[row.graph] = row
    return Measured(of, list(data_sets), list(methods))


def scores(
    found: Measured,
    data_set: str,
    measure: Measure,
    *,
    beside_paper: bool = False,
    graphs: Collection[int] | None = None,
) -> dict[str, float]:
    """TOS of each method on a data set.

    beside_paper: as if they stood in the paper's tables, whose slowest method and highest NCut
    count too. graphs: on these only; methods that have none of them are left out.
    """
    points: dict[str, tuple[float, float]] = {}
    for method in found.methods:
        quality = found.mean(data_set, method, OF_ROW[measure], graphs)
        seconds = found.mean(data_set, method, "seconds", graphs)
        if quality is not None and seconds:
            points[method] = (quality, seconds)
    if not points:
        return {}
    others = _published_points(data_set, measure) if beside_paper else []
    qualities, times = np.array([*points.values(), *others]).T
    computed = trade_off_scores(qualities, times, measure)
    return dict(zip(points, computed.tolist(), strict=False))


def _published_points(data_set: str, measure: Measure) -> list[tuple[float, float]]:
    """Quality as a fraction and seconds of each method of the paper on a data set."""
    published, factor = means(), 0.01 if measure in IN_PERCENT else 1.0
    return [
        (factor * value, published["seconds", method, data_set])
        for (of, method, where), value in published.items()
        if (of, where) == (measure, data_set)
    ]
