"""A table of known communities, grouped by the windows that it names: one reading for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadInput, BadRow, BadSettings
from stream_icd.snapshot import Snapshot
from stream_icd.sources.durations import time_at
from stream_icd.sources.source import stop_at_bad_row
from stream_icd.sources.tables.tables import RawRows, columns_of, read_rows
from stream_icd.sources.tables.values import read_times

NAMES = ("community", "label")
OF = ("snapshot", "window_start")


@dataclass(frozen=True, slots=True)
class WindowName:
    """The window that labels belong to, as a table names it.

    Attributes:
        graph: name of the graph; None if the table has no such column.
        window: id of the snapshot, or the start of its window; None: the labels hold in each.
    """

    graph: str | None
    window: str | datetime | None

    def __str__(self) -> str:
        window = self.window.isoformat() if isinstance(self.window, datetime) else self.window
        return " ".join(filter(None, (self.graph, window)))


LabelOfNode = Mapping[str, str]


def names_of(graph: str, snapshot_id: str, start: datetime) -> Iterator[str | datetime]:
    """Yield the names that a table may give a window, those that are surely its own first.

    They are its id, the part after the graph's name, its start, and as the part may be the name of
    a file, that without its ending.
    """
    part = snapshot_id.removeprefix(f"{graph}/")
    yield from (snapshot_id, part, start, Path(part).stem)


def label_groups(path: Path) -> dict[WindowName, LabelOfNode]:
    """Read the columns `node` and `community` (or `label`), and what they belong to.

    `snapshot` or `window_start` names the window: without either, the labels hold in each window.
    `graph` is optional. Nodes and labels are compared as text, so that `7` in a CSV file is the
    node 7 of a graph. The whole table is read into memory.

    Raises:
        SourceNotFound: `path` does not exist.
        BadSettings: columns are missing, or the format is unknown.
        BadRow: a value is missing or cannot be read, or a node of a window has two labels.
    """
    columns = columns_of(path)
    label = next((one for one in NAMES if one in columns), None)
    if columns and ("node" not in columns or label is None):
        raise BadSettings(
            f"{path} has the columns {', '.join(columns)}; a table of labels has node and "
            "community, and snapshot or window_start if they change; also graph, if there are "
            "several"
        )
    of = [one for one in OF if one in columns][:1]
    graph = ["graph"] if "graph" in columns else []
    groups: dict[WindowName, dict[str, str]] = {}
    label = label or NAMES[0]
    for rows in read_rows(path, ["node", label, *of, *graph], stop_at_bad_row):
        nodes, labels = (rows.rows[c].cast(pa.string()).to_pylist() for c in ("node", label))
        for at, (name, node, community) in enumerate(zip(_names(rows), nodes, labels, strict=True)):
            if not node or not community:
                raise BadRow(f"{rows.origin}:{rows.place[at]}: node or {label} is missing")
            known = groups.setdefault(name, {})
            if known.setdefault(node, community) != community:
                raise BadRow(
                    f"{rows.origin}:{rows.place[at]}: node {node!r} of {name or 'each window'} is "
                    f"in {community!r}, and was in {known[node]!r} before"
                )
    if not groups:
        raise BadSettings(f"{path} has no labels: a table has the columns node and community")
    return dict(groups)


def _names(rows: RawRows) -> list[WindowName]:
    table = rows.rows
    graphs = [None] * len(table)
    if "graph" in table.column_names:
        graphs = table["graph"].cast(pa.string()).to_pylist()
    windows: list[str | datetime | None] = [None] * len(table)
    if "snapshot" in table.column_names:
        windows = table["snapshot"].cast(pa.string()).to_pylist()
    elif "window_start" in table.column_names:
        times, good = read_times(table["window_start"], "s", "UTC")
        if not good.all():
            raise BadRow(f"{rows.origin}: a window_start is not a time; give ISO 8601 or seconds")
        windows = [time_at(int(one)).astimezone(UTC) for one in times]
    return [WindowName(*pair) for pair in zip(graphs, windows, strict=True)]


class LabelTable:
    """The communities of snapshots, from a table that `label_groups` reads.

    Raises:
        As `label_groups`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        groups = label_groups(path)
        # A single graph may have another name in a source that does not name its graph.
        one_graph = len({name.graph for name in groups}) == 1
        self._labels = {
            WindowName(None if one_graph else name.graph, name.window): labels
            for name, labels in groups.items()
        }

    def of(self, snapshot: Snapshot) -> NDArray[np.int32] | None:
        """Return its communities, `(n_nodes,)` in 0..K-1; None if the table has none for it.

        Raises:
            BadInput: a node has no label.
        """
        found = self._found(snapshot)
        if found is None:
            return None
        nodes = snapshot.nodes.cast(pa.string()).to_pylist()
        missing = [node for node in nodes if found.get(node) is None]
        if missing:
            raise BadInput(
                f"{self._path} has no label for {len(missing)} of the {len(nodes)} nodes of "
                f"{snapshot.id}, such as {missing[0]!r}; give each node one"
            )
        return np.unique([found[node] for node in nodes], return_inverse=True)[1].astype(np.int32)

    def _found(self, snapshot: Snapshot) -> LabelOfNode | None:
        windows = [*names_of(snapshot.graph, snapshot.id, snapshot.window.start), None]
        names = (WindowName(graph, one) for graph in (snapshot.graph, None) for one in windows)
        return next((self._labels[name] for name in names if name in self._labels), None)
