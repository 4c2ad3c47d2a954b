"""Export archived rows to one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from stream_icd.errors import BadSettings, StoreUnwritable
from stream_icd.history.archive import Selection, read_window, windows
from stream_icd.history.nothing import nothing_selected
from stream_icd.node_ids import in_schema
from stream_icd.spreadsheet import safe_cells
from stream_icd.store.store import Store
from stream_icd.store.whole_file import whole_file

Format = Literal["parquet", "csv", "arrow"]
SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow"}


def format_of(path: Path) -> Format:
    """Return the format for the ending of a file's name.

    Raises:
        BadSettings: the ending is unknown.
    """
    try:
        return SUFFIXES[path.suffix]
    except KeyError:
        raise BadSettings(
            f"cannot tell a format from {path.name!r}: end it in {', '.join(SUFFIXES)}"
        ) from None


def export(
    store: Store,
    selection: Selection,
    out: Path,
) -> int:
    """Write the selected rows to `out` in time order; return the number of rows.

    The columns are `graph` and then those of the archive. In CSV, text that a spreadsheet would
    treat as a formula gets an apostrophe before it. The file appears when it is complete.

    Raises:
        SourceNotFound, BadSettings: nothing is selected; the message says why.
        BadSettings: graphs have ids of different types.
        StoreUnwritable: such as a full disk.
        HistoryDamaged: a file of the archive cannot be read.
    """
    kind = format_of(out)
    try:
        with whole_file(out) as aside, aside.open("xb") as sink:
            tables = _tables(store, selection)
            rows = _write(map(safe_cells, tables) if kind == "csv" else tables, kind, sink)
    except OSError as error:
        raise StoreUnwritable(f"cannot write {out}: {error.strerror or error}") from error
    return rows


def _tables(store: Store, selection: Selection) -> Iterator[pa.Table]:
    schema: pa.Schema | None = None
    for noted in windows(store, selection):
        found = read_window(store, noted)
        schema = schema or found.schema
        rows = in_schema(found, schema)
        if rows is None:
            raise BadSettings(
                f"graph {noted.partition.graph!r} has other types of ids than the windows before "
                "it, and a file has one type: choose one graph with --graph"
            )
        graph = pa.repeat(pa.scalar(noted.partition.graph), rows.num_rows)
        yield rows.add_column(0, "graph", graph)
    if schema is None:
        raise nothing_selected(store, selection)


def _write(tables: Iterator[pa.Table], kind: Format, sink: object) -> int:
    first = next(tables)
    with _writer(kind, sink, first.schema) as writer:
        writer.write_table(first)
        rows = int(first.num_rows)
        for table in tables:
            writer.write_table(table)
            rows += table.num_rows
    return rows


@contextmanager
def _writer(kind: Format, sink: object, schema: pa.Schema) -> Iterator[Any]:
    if kind == "parquet":
        opened: Any = pq.ParquetWriter(sink, schema, compression="zstd")
    elif kind == "csv":
        opened = pa.csv.CSVWriter(sink, schema)
    else:
        opened = pa.ipc.new_file(sink, schema)
    with opened as writer:
        yield writer
