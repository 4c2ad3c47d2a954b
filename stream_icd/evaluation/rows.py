"""The results of an evaluation as CSV: a row for each method and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from stream_icd.evaluation.evaluate import Result
from stream_icd.evaluation.measures import Measures
from stream_icd.spreadsheet import safe_cells
from stream_icd.store.whole_file import whole_file

TEXTS = ("method", "snapshot", "status", "detail")
NUMBERS = ("seconds", "evidence", "stability", *(one.name for one in fields(Measures)))
"""Columns; the numbers of a window without a result are empty fields."""


def write_rows(path: Path, results: Sequence[Result]) -> None:
    """Write the file as a whole."""
    columns = {
        name: pa.array([getattr(one, name) for one in results], pa.string()) for name in TEXTS
    }
    rows = [_numbers(one) for one in results]
    columns |= {name: pa.array([row.get(name) for row in rows], pa.float64()) for name in NUMBERS}
    with whole_file(path) as aside:
        pyarrow.csv.write_csv(safe_cells(pa.table(columns)), aside)


def _numbers(result: Result) -> dict[str, float | None]:
    if result.measures is None:
        return {}
    own = {name: getattr(result, name) for name in ("seconds", "evidence", "stability")}
    return own | asdict(result.measures)
