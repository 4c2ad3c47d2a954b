"""Export archived rows to one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from stream_icd.core.errors import BadSettings
from stream_icd.core.node_ids import in_schema
from stream_icd.core.printable import safe_cells
from stream_icd.core.store.store import Store
from stream_icd.core.store.whole_file import whole_file, writing
from stream_icd.history.archive import Selection, nothing_selected, read_window, windows

_WRITERS: Mapping[str, Callable[..., Any]] = {
    ".parquet": partial(pq.ParquetWriter, compression="zstd"),
    ".csv": pa.csv.CSVWriter,
    ".arrow": pa.ipc.new_file,
}


def export(store: Store, selection: Selection, out: Path) -> int:
    """Write the selected rows to `out` in time order; return the number of rows.

    The columns are `graph` and then those of the archive; see `safe_cells` for CSV. The file
    appears when it is complete.

    Raises:
        SourceNotFound, BadSettings: nothing is selected, the ending of the file's name is unknown,
            or graphs have ids of different types.
        StoreUnwritable, HistoryDamaged: see these classes.
    """
    if out.suffix not in _WRITERS:
        endings = ", ".join(_WRITERS)
        raise BadSettings(f"cannot tell a format from {out.name!r}: end it in {endings}")
    with writing(out), whole_file(out) as aside, aside.open("xb") as sink:
        tables = _tables(store, selection)
        if out.suffix == ".csv":
            tables = map(safe_cells, tables)
        first, n_rows = next(tables), 0
        with _WRITERS[out.suffix](sink, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
                n_rows += table.num_rows
    return n_rows


def _tables(store: Store, selection: Selection) -> Iterator[pa.Table]:
    schema: pa.Schema | None = None
    for noted in windows(store, selection):
        archived = read_window(store, noted)
        schema = schema or archived.schema
        rows = in_schema(archived, schema)
        if rows is None:
            raise BadSettings(
                f"graph {noted.partition.graph!r} has other types of ids than the windows before "
                "it, and a file has one type: choose with --graph, --from and --to"
            )
        graph = pa.repeat(pa.scalar(noted.partition.graph), rows.num_rows)
        yield rows.add_column(0, "graph", graph)
    if schema is None:
        raise nothing_selected(store, selection)
