"""A table of known communities for the snapshots of any source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_icd.errors import BadInput, BadSettings
from stream_icd.snapshot import Snapshot
from stream_icd.sources.source import stop_at_bad_row
from stream_icd.sources.tables import first_fields, read_rows
from stream_icd.sources.values import read_times

NAMES = ("community", "label")
OF = ("snapshot", "window_start")

LabelOfNode = dict[str, str]


class LabelTable:
    """Columns `node`, `community` (or `label`), and optionally `snapshot` or `window_start`.

    `snapshot` is a snapshot's id, or the part after its graph's name, such as a file's name.
    Without either column, the labels apply to every snapshot. Nodes and labels are compared as
    text, so that `7` in a CSV file matches the node 7 of a graph.

    Raises:
        SourceNotFound: `path` does not exist.
        BadSettings: columns are missing, or the format is unknown.
        BadRow: a row cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        columns = columns_of(path)
        name = next((one for one in NAMES if one in columns), None)
        if "node" not in columns or name is None:
            raise BadSettings(
                f"{path} has the columns {', '.join(columns) or 'none'}; a table of labels has "
                "node and community, and optionally snapshot or window_start"
            )
        self._of = next((one for one in OF if one in columns), None)
        wanted = ["node", name, *([self._of] if self._of else [])]
        batches = [batch.rows for batch in read_rows(path, wanted, stop_at_bad_row)]
        self._labels: dict[object, LabelOfNode] = {}
        for batch in batches:
            nodes, labels = (batch[c].cast(pa.string()).to_pylist() for c in ("node", name))
            for whose, node, label in zip(self._keys(batch), nodes, labels, strict=True):
                self._labels.setdefault(whose, {})[node] = label

    def of(self, snapshot: Snapshot) -> NDArray[np.int32] | None:
        """Return its communities, `(n_nodes,)` in 0..K-1; None if the table has none for it.

        Raises:
            BadInput: a node has no label.
        """
        found = next(
            (self._labels[one] for one in self._names(snapshot) if one in self._labels), None
        )
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

    def _keys(self, batch: pa.Table) -> list[object]:
        if self._of is None:
            return [None] * len(batch)
        if self._of == "snapshot":
            return list(batch["snapshot"].cast(pa.string()).to_pylist())
        times, good = read_times(batch["window_start"], "s", "UTC")
        if not good.all():
            raise BadSettings(
                f"{self._path}: a window_start is not a time; give ISO 8601 or seconds"
            )
        return list(times.tolist())

    def _names(self, snapshot: Snapshot) -> list[object]:
        if self._of is None:
            return [None]
        if self._of == "window_start":
            return [int(snapshot.window.start.timestamp()) * 1_000_000]
        part = snapshot.id.removeprefix(f"{snapshot.graph}/")
        return [snapshot.id, part, Path(part).stem]


def columns_of(path: Path) -> list[str]:
    """Return the columns of a table, or of the first one in a folder."""
    if not path.is_file():  # a folder of tables, or nothing: reading says what is wrong
        files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else []
        if not files:
            read_rows(path, ["node"], stop_at_bad_row)
        path = files[0]
    if path.suffix == ".parquet":
        return list(pq.read_schema(path).names)
    return first_fields(path)
