"""A table of known communities for the snapshots of any source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadInput
from stream_icd.snapshot import Snapshot
from stream_icd.sources.labels.label_groups import LabelOfNode, WindowName, label_groups, names_of


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
