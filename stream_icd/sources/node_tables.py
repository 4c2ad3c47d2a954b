"""Tables of nodes: their known communities by window, their attributes, or only their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.core.times import time_at
from stream_icd.methods.names.attributes import Attributes, attributes_of
from stream_icd.sources.source import RawRows, stop_at_bad_row
from stream_icd.sources.tables import UNREADABLE, columns_of, read_rows
from stream_icd.sources.values import IdForm, read_times

_NODE = "node"
_LABELS = ("community", "label")
_WINDOWS = ("snapshot", "window_start")


@dataclass(frozen=True, slots=True)
class WindowName:
    """The window that labels belong to, as a table names it."""

    graph: str | None  # None if the table has no such column
    window: str | datetime | None  # id of the snapshot, or start of its window; None: all windows

    def __str__(self) -> str:
        window = self.window.isoformat() if isinstance(self.window, datetime) else self.window
        return " ".join(filter(None, (self.graph, window)))

    @staticmethod
    def windows(graph: str, snapshot_id: str, start: datetime) -> Iterator[str | datetime]:
        """Yield what a table may call a window: last, the name of its file without the ending."""
        part = snapshot_id.removeprefix(f"{graph}/")
        yield from (snapshot_id, part, start, Path(part).stem)


LabelOfNode = Mapping[str, str]


def label_groups(path: Path) -> dict[WindowName, LabelOfNode]:
    """Read the columns `node` and `community` (or `label`) into memory, and what they belong to.

    `snapshot` or `window_start` names the window: without either, the labels hold in each window.
    `graph` is optional. Nodes and labels are compared as text: `7` in a CSV file is node 7.
    Raises `SourceNotFound`; `BadSettings` if columns are missing, or the format is unknown;
    `BadRow` if a value is missing or cannot be read, or a node of a window has two labels.
    """
    columns = columns_of(path)
    label = next((name for name in _LABELS if name in columns), _LABELS[0])
    if columns and not {_NODE, label} <= set(columns):
        raise BadSettings(
            f"{path} has the columns {', '.join(columns)}; a table of labels has node and "
            "community, and snapshot or window_start if they change; also graph, if there are "
            "several"
        )
    of = [name for name in _WINDOWS if name in columns][:1]
    graph = ["graph"] if "graph" in columns else []
    groups: dict[WindowName, dict[str, str]] = {}
    for rows in map(_readable, read_rows(path, [_NODE, label, *of, *graph], stop_at_bad_row)):
        named = zip(_names(rows), _texts(rows, _NODE), _texts(rows, label), strict=True)
        for at, (name, node, community) in enumerate(named):
            if not node or not community:
                raise BadRow(f"{rows.origin}:{rows.place[at]}: node or {label} is missing")
            communities = groups.setdefault(name, {})
            if communities.setdefault(node, community) != community:
                where = str(name) or "each window"
                raise BadRow(
                    f"{rows.origin}:{rows.place[at]}: node {node!r} of {where} is in "
                    f"{community!r}, and was in {communities[node]!r} before"
                )
    if not groups:
        raise BadSettings(f"{path} has no labels: a table has the columns node and community")
    return dict(groups)


def _readable(rows: RawRows) -> RawRows:
    """Return the rows; raise `BadRow` at a text that is not UTF-8, which would be another one."""
    for column in rows.rows.columns:
        if pa.types.is_string(column.type):
            spoilt = pc.index(pc.match_substring(column, UNREADABLE), True).as_py()
            if spoilt >= 0:
                where = f"{rows.origin}:{rows.place[spoilt]}"
                raise BadRow(f"{where}: {column[spoilt].as_py()!r} is not UTF-8")
    return rows


def _names(rows: RawRows) -> list[WindowName]:
    windows: Sequence[str | datetime | None] = _texts(rows, "snapshot")
    if "window_start" in rows.rows.column_names:
        times, good = read_times(rows.rows["window_start"], "s", "UTC")
        if not good.all():
            raise BadRow(f"{rows.origin}: a window_start is not a time; give ISO 8601 or seconds")
        windows = [time_at(time) for time in times.tolist()]
    graphs = _texts(rows, "graph")
    return [WindowName(graph, window) for graph, window in zip(graphs, windows, strict=True)]


def _texts(rows: RawRows, column: str) -> list[str | None]:
    """Return the values of a column as text, None for NaN; all None if there is no such column."""
    if column not in rows.rows.column_names:
        return [None] * len(rows.rows)
    values = rows.rows[column]
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    if column == _NODE and IdForm.of_column(values).kind == "integer":
        values = IdForm("integer").read(values)[0]
    try:
        texts: list[str | None] = values.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # such as lists
        raise BadRow(
            f"{rows.origin}: {column} is no column of texts or numbers: {error}"
        ) from error
    return texts


def read_known(path: Path, graph: str | None = None) -> dict[str, LabelOfNode]:
    """Read by graph which nodes are known to be in one community: those of one label are.

    graph: whose nodes they are if the table has no column `graph`. Raises as `label_groups`;
    `BadSettings` if the labels are of single windows, or nothing says to which graph they belong.
    """
    labels_of: dict[str, LabelOfNode] = {}
    for name, labels in label_groups(path).items():
        if name.window is not None:
            raise BadSettings(
                f"{path} has labels of single windows ({name}); known communities are those of all "
                "windows: leave out the columns snapshot and window_start"
            )
        of = name.graph or graph
        if of is None:
            raise BadSettings(
                f"{path} does not say to which graph a node belongs: add the column graph, or give "
                "--graph"
            )
        labels_of[of] = labels
    return labels_of


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
        raise SourceNotFound(f"there is no file {path}; give a CSV, JSON lines or Parquet file")
    columns = [column for column in columns_of(path) if column]  # pandas' index has no name
    read = read_rows(path, columns, stop_at_bad_row)  # raises at once if the format is unknown
    if _NODE not in columns:
        shown = f"has the columns {', '.join(columns)}"
        fault = shown if columns else "is empty, damaged or unreadable"
        raise BadSettings(
            f"{path} {fault}; a table of attributes has the column node, and one for each "
            "attribute, such as country"
        )
    tables = [_readable(rows).rows for rows in read]
    if not tables:
        raise BadSettings(f"{path} has no rows; give a row for each node")
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    values = {column: table[column].combine_chunks() for column in columns}
    nodes = values.pop(_NODE)
    if pa.types.is_string(nodes.type) or pa.types.is_floating(nodes.type):  # such as 1.0
        nodes = IdForm.of_column(table[_NODE]).read(table[_NODE])[0]
    try:
        return attributes_of(nodes, values)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from error


def read_nodes(path: str | Path) -> frozenset[str]:
    """Return the ids in a file, as text: `.txt` has one a line; CSV, JSON lines and Parquet have
    the column `node`.

    Raises `SourceNotFound`; `BadSettings` if it has no column `node`, no id, or is of an unknown
    format; `BadRow` if a row cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise SourceNotFound(f"there is no file {path}; give one with an id a line, or a table")
    if path.suffix in (".txt", ""):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except ValueError:
            raise BadSettings(f"{path} is not UTF-8 text") from None
        ids = frozenset(line.strip() for line in lines if line.strip())
    elif _NODE not in columns_of(path):
        raise BadSettings(f"{path} has no column node; give one, or name it .txt with an id a line")
    else:
        columns = (rows.rows[_NODE] for rows in read_rows(path, [_NODE], stop_at_bad_row))
        texts = (id for column in columns for id in column.cast(pa.string()).to_pylist())
        ids = frozenset(id for id in texts if id)
    if not ids:
        raise BadSettings(f"{path} has no nodes; a rule with it would never fire")
    return ids
