"""Files that list nodes: one id a line, or a table with the column `node`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from stream_icd.core.errors import BadSettings, SourceNotFound
from stream_icd.sources.node_tables import NODE
from stream_icd.sources.source import stop_at_bad_row
from stream_icd.sources.tables import columns_of, read_rows

_LINES = (".txt", "")


def read_nodes(path: str | Path) -> frozenset[str]:
    """Return the ids in a file, as text: `.txt` has one a line; CSV, JSON lines and Parquet have
    the column `node`.

    Raises:
        SourceNotFound: there is no such file.
        BadSettings: it has no column `node`, no id, or is of an unknown format.
        BadRow: a row cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise SourceNotFound(f"there is no file {path}; give one with an id a line, or a table")
    if path.suffix in _LINES:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except ValueError:
            raise BadSettings(f"{path} is not UTF-8 text") from None
        found = frozenset(line.strip() for line in lines if line.strip())
    elif NODE not in columns_of(path):
        raise BadSettings(f"{path} has no column node; give one, or name it .txt with an id a line")
    else:
        columns = (rows.rows[NODE] for rows in read_rows(path, [NODE], stop_at_bad_row))
        texts = (id for column in columns for id in column.cast(pa.string()).to_pylist())
        found = frozenset(id for id in texts if id)
    if not found:
        raise BadSettings(f"{path} has no nodes; a rule with it would never fire")
    return found
