"""The archive as a source of snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.history.archive import (
    Selection,
    nothing_selected,
    read_message,
    read_snapshot,
    windows,
)
from stream_icd.sources.source import Source
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.limits import Limits


def archived_source(store: Store, selection: Selection, as_graph: str | None = None) -> Source:
    """Return archived snapshots in the order of their windows, with their archived labels.

    `as_graph` renames the graph, also in snapshot ids that begin with its name.

    Raises:
        SourceNotFound, BadSettings: there are no snapshots, or several graphs to rename.
        HistoryDamaged: a file cannot be read.
    """
    chosen = list(windows(store, selection))
    if not chosen:
        raise nothing_selected(store, selection)
    graphs = sorted({noted.partition.graph for noted in chosen})
    if as_graph is not None and len(graphs) > 1:
        raise BadSettings(
            f"--as-graph {as_graph}: these are snapshots of {len(graphs)} graphs, "
            f"{', '.join(graphs[:10])}; choose one with --graph"
        )
    limits = Limits()
    of_labels = windows(store, replace(selection, kind="labels"))
    labels = {noted.name: noted for noted in of_labels}

    def snapshots() -> Iterator[tuple[Snapshot, Labels | None]]:
        for noted in chosen:
            snapshot, known = read_snapshot(store, noted, limits), None
            labelled = labels.get((snapshot.graph, snapshot.id))
            if as_graph is not None:
                snapshot = _renamed(snapshot, as_graph)
            if labelled is not None:
                message = read_message(store, labelled)
                known = decode_labels(message.key, message.value, message.headers, limits)
                known = replace(known, graph=snapshot.graph, snapshot_id=snapshot.id)
            yield snapshot, known

    return Source(len(chosen), snapshots())


def _renamed(snapshot: Snapshot, graph: str) -> Snapshot:
    prefix, new_id = f"{snapshot.graph}/", snapshot.id
    if new_id.startswith(prefix):
        new_id = f"{graph}/{new_id.removeprefix(prefix)}"
    return replace(snapshot, graph=graph, id=new_id)
