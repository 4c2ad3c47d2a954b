"""A table of labels, grouped by the windows that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from stream_icd.errors import BadRow, BadSettings
from stream_icd.sources.durations import time_at
from stream_icd.sources.label_table import NAMES, OF, columns_of
from stream_icd.sources.source import stop_at_bad_row
from stream_icd.sources.tables import RawRows, read_rows
from stream_icd.sources.values import read_times


@dataclass(frozen=True, slots=True)
class WindowName:
    """The window that labels belong to, as a table names it.

    Attributes:
        graph: name of the graph; None if the table has no such column.
        window: id of the snapshot, or the start of its window.
    """

    graph: str | None
    window: str | datetime

    def __str__(self) -> str:
        window = self.window if isinstance(self.window, str) else self.window.isoformat()
        return window if self.graph is None else f"{self.graph} {window}"


LabelOfNode = Mapping[str, str]


def label_groups(path: Path) -> dict[WindowName, LabelOfNode]:
    """Read the columns `node`, `community` (or `label`), `snapshot` or `window_start`, `graph`.

    `graph` is optional. Nodes and labels are compared as text. The whole table is read into memory.

    Raises:
        SourceNotFound: `path` does not exist.
        BadSettings: columns are missing, or the format is unknown.
        BadRow: a value is missing or cannot be read, or a node of a window has two labels.
    """
    columns = columns_of(path)
    label = next((one for one in NAMES if one in columns), None)
    of = next((one for one in OF if one in columns), None)
    if "node" not in columns or label is None or of is None:
        raise BadSettings(
            f"{path} has the columns {', '.join(columns) or 'none'}; a table of labels to send has "
            "node, community, and snapshot or window_start; also graph, if there are several"
        )
    graph = ["graph"] if "graph" in columns else []
    groups: dict[WindowName, dict[str, str]] = {}
    for rows in read_rows(path, ["node", label, of, *graph], stop_at_bad_row):
        table = rows.rows
        names = _names(rows, of)
        nodes, labels = (table[c].cast(pa.string()).to_pylist() for c in ("node", label))
        for at, (name, node, community) in enumerate(zip(names, nodes, labels, strict=True)):
            if not node or not community:
                raise BadRow(f"{rows.origin}:{rows.place[at]}: node or {label} is missing")
            known = groups.setdefault(name, {})
            if known.setdefault(node, community) != community:
                raise BadRow(
                    f"{rows.origin}:{rows.place[at]}: node {node!r} of {name} is in {community!r}, "
                    f"and was in {known[node]!r} before"
                )
    return dict(groups)


def _names(rows: RawRows, of: str) -> list[WindowName]:
    table = rows.rows
    graphs = [None] * len(table)
    if "graph" in table.column_names:
        graphs = table["graph"].cast(pa.string()).to_pylist()
    windows: list[str | datetime]
    if of == "snapshot":
        windows = table["snapshot"].cast(pa.string()).to_pylist()
    else:
        times, good = read_times(table["window_start"], "s", "UTC")
        if not good.all():
            raise BadRow(f"{rows.origin}: a window_start is not a time; give ISO 8601 or seconds")
        windows = [time_at(int(one)).astimezone(UTC) for one in times]
    return [WindowName(*pair) for pair in zip(graphs, windows, strict=True)]
