"""Read a table of attributes of nodes: `node` and a column for each attribute."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.errors import BadSettings, SourceNotFound
from stream_icd.names.attributes import Attributes, attributes_of
from stream_icd.sources.source import stop_at_bad_row
from stream_icd.sources.tables.tables import columns_of, read_rows
from stream_icd.sources.tables.values import INTEGER

NODE = "node"


def read_attributes(path: str | Path) -> Attributes:
    """Read attributes from a CSV, JSON lines or Parquet file: a row for each node.

    The column `node` holds the ids; every other column is an attribute. In a text file, ids that
    are all integers are integers. The whole table is read into memory.

    Raises:
        SourceNotFound: there is no such file.
        BadSettings: it has no column `node` or no other one, a node is doubled or missing, or the
            format is unknown.
        BadRow: a row cannot be read.

    >>> _ = Path("countries.csv").write_text("node,country\\n7018,US\\n3303,CH\\n")
    >>> read_attributes("countries.csv").columns[0].values
    ('CH', 'US')
    """
    path = Path(path)
    if not path.is_file():
        raise SourceNotFound(f"there is no file {path}; give a CSV or Parquet file of attributes")
    columns = columns_of(path)
    if NODE not in columns:
        named = f"has the columns {', '.join(columns)}" if columns else "is empty"
        raise BadSettings(
            f"{path} {named}; a table of attributes has the column node, and one for each "
            "attribute, such as country"
        )
    tables = [rows.rows for rows in read_rows(path, columns, stop_at_bad_row)]
    if not tables:
        raise BadSettings(f"{path} has no rows; give a row for each node")
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    try:
        named_values = {one: table[one].combine_chunks() for one in columns if one != NODE}
        return attributes_of(_ids(table[NODE].combine_chunks()), named_values)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from error


def _ids(nodes: pa.Array) -> pa.Array:
    """Return the ids, as integers if all of them are."""
    if not pa.types.is_string(nodes.type):
        return nodes
    nodes = pc.if_else(pc.equal(nodes, ""), None, nodes)
    whole = pc.all(pc.match_substring_regex(nodes, INTEGER)).as_py()
    return nodes.cast(pa.int64()) if whole else nodes
