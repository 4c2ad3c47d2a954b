"""Send a table of labels: one message for each archived window that it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import listed
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Selection, read_snapshot, windows
from stream_icd.history.files import ArchivedWindow
from stream_icd.sources.node_tables import LabelOfNode, WindowName

_Archived = dict[str, dict[str | datetime | None, list[ArchivedWindow]]]
"""The windows of each graph by their names; None: all."""


@dataclass(slots=True)
class _LabelCounts:
    """What became of a table of labels."""

    windows: int = 0  # sent
    nodes: int = 0  # sent
    partly: int = 0  # windows that were sent, and have nodes without a label
    unknown_nodes: int = 0  # labels, not sent, of nodes that none of their windows has
    unknown_windows: list[WindowName] = field(default_factory=list)  # not in the archive


def send_labels(
    groups: Mapping[WindowName, LabelOfNode],
    store: Store,
    send: Callable[[Labels], None],
    graph: str | None,
    source: str,
) -> _LabelCounts:
    """Join labels of `label_groups` with the windows of an archive, and send them.

    Raises `BadSettings`, before anything is sent, if a window without a graph may be of several
    graphs (none is chosen by `graph`), or has two names.
    """
    archived, counts = _archived(store, graph), _LabelCounts()
    named = {name: _named(archived, name) for name in groups}
    _refuse_two_names(named)
    for name, label_of in groups.items():
        if not named[name]:
            counts.unknown_windows.append(name)
            continue
        unseen = set(label_of)
        for noted in named[name]:
            snapshot = read_snapshot(store, noted)
            labels = _labels(snapshot, label_of, source)
            if labels is not None:
                send(labels)
                unseen.difference_update(labels.nodes.cast(pa.string()).to_pylist())
                counts.windows += 1
                counts.nodes += len(labels.nodes)
                counts.partly += len(labels.nodes) < snapshot.n_nodes
        counts.unknown_nodes += len(unseen)
    return counts


def _archived(store: Store, graph: str | None) -> _Archived:
    """The archived windows by the names that a table may give them."""
    named: _Archived = defaultdict(dict)
    stems: _Archived = defaultdict(dict)
    for noted in windows(store, Selection("snapshots", graph)):
        of_graph = noted.partition.graph
        named[of_graph].setdefault(None, []).append(noted)
        *own, stem = WindowName.windows(of_graph, noted.identity.snapshot_id, noted.window.start)
        named[of_graph] |= {name: [noted] for name in own}
        stems[of_graph][stem] = [noted]
    return {of_graph: stems[of_graph] | names for of_graph, names in named.items()}


def _named(archived: _Archived, name: WindowName) -> list[ArchivedWindow]:
    """The windows of that name, of one graph: at most one, or all of it."""
    graphs = archived if name.graph is None else [name.graph]
    found = [graph for graph in graphs if name.window in archived.get(graph, {})]
    if len(found) > 1:
        raise BadSettings(
            f"the labels of {str(name) or 'each window'} may be those of {len(found)} graphs, "
            f"{listed(found)}: choose one with --graph, or add the column graph"
        )
    return [window for graph in found for window in archived[graph][name.window]]


def _refuse_two_names(named: Mapping[WindowName, Sequence[ArchivedWindow]]) -> None:
    """Check that no window has two names: the labels of one would replace those of the other."""
    name_of: dict[tuple[str, str], WindowName] = {}
    for name, of_name in named.items():
        for noted in of_name:
            if (other := name_of.setdefault(noted.name, name)) != name:
                said = " and ".join(repr(str(each)) for each in (other, name))
                raise BadSettings(
                    f"{said} are names of the same window, {noted.identity.snapshot_id}: give all "
                    "its labels one name, and all rows a graph or none"
                )


def _labels(snapshot: Snapshot, label_of: LabelOfNode, source: str) -> Labels | None:
    """The labels of the nodes that the snapshot has; None if it has none of them."""
    names = snapshot.nodes.cast(pa.string()).to_pylist()
    known = np.array([name in label_of for name in names])
    if not known.any():
        return None
    communities = [label_of[name] for name in names if name in label_of]
    numbers = np.unique(communities, return_inverse=True)[1].astype(np.int32)
    nodes = snapshot.nodes.filter(pa.array(known))
    return Labels(snapshot.graph, snapshot.id, snapshot.window, nodes, numbers, source)
