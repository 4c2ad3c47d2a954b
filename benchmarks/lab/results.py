"""The results of cells, in one Parquet file: a row for each method, graph and seed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from stream_icd.core.store.whole_file import whole_file
from stream_icd.interfaces.evaluation.evaluate import Measures
from stream_icd.interfaces.evaluation.limits import MethodRun

TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "int | None": pa.int64(),
    "float | None": pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Row:
    """How one method did on one graph.

    Attributes:
        data_set, graph, method, seed: the cell; graph is its number in the data set.
        n_nodes, n_edges, k_asked: the graph, and the number of communities that was asked for.
        status, detail, seconds, clock_seconds, peak_bytes: see `MethodRun`; stages as JSON.
        k_found .. ari: see `Measures`; None without a result.
        learn_seconds: processor time of learning from past graphs, for the whole data set.
        versions: of the libraries, as JSON; machine: processor and system; at: time in UTC.
    """

    data_set: str
    graph: int
    method: str
    seed: int
    n_nodes: int
    n_edges: int
    k_asked: int
    status: str
    detail: str
    seconds: float
    clock_seconds: float
    stages: str
    peak_bytes: int | None
    k_found: int | None
    modularity: float | None
    ncut: float | None
    ncut_within: float | None
    nmi: float | None
    ac: float | None
    ami: float | None
    ari: float | None
    learn_seconds: float
    versions: str
    machine: str
    at: str

    @property
    def cell(self) -> tuple[str, int, str, int]:
        """What is done once."""
        return self.data_set, self.graph, self.method, self.seed


SCHEMA = pa.schema([(field.name, TYPES[str(field.type)]) for field in fields(Row)])


def result(
    outcome: MethodRun, measures: Measures | None, as_printed: float | None = None
) -> dict[str, Any]:
    """The columns of a row that come from a run."""
    found = {} if measures is None else asdict(measures)
    return {
        "status": outcome.status,
        "detail": outcome.detail,
        "seconds": outcome.seconds,
        "clock_seconds": outcome.clock_seconds,
        "stages": json.dumps(outcome.stages),
        "peak_bytes": outcome.peak_bytes,
        "k_found": found.pop("n_communities", None),
        **{name: found.get(name) for name in ("modularity", "ncut")},
        "ncut_within": as_printed,
        **{name: found.get(name) for name in ("nmi", "ac", "ami", "ari")},
    }


def read_rows(path: Path) -> list[Row]:
    """All rows of a file; none if there is no file."""
    if not path.exists():
        return []
    return [Row(**row) for row in pq.read_table(path, schema=SCHEMA).to_pylist()]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Replace the file as a whole: whoever reads it, or ends this program, finds it complete."""
    with whole_file(path) as aside:
        pq.write_table(_table(rows), aside)


def write_csv(path: Path, rows: list[Row]) -> None:
    """Write the same rows as CSV; a missing value is an empty field."""
    with whole_file(path) as aside:
        pyarrow.csv.write_csv(_table(rows), aside)


def _table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA)
