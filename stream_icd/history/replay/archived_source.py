"""The archive as a source of snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection
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
    archive = Archive(store)
    chosen = list(archive.windows(selection))
    if not chosen:
        raise archive.nothing_selected(selection)
    graphs = sorted({window.partition.graph for window in chosen})
    if as_graph is not None and len(graphs) > 1:
        raise BadSettings(
            f"--as-graph {as_graph}: these are snapshots of {len(graphs)} graphs, "
            f"{', '.join(graphs[:10])}; choose one with --graph"
        )
    limits = Limits()
    of_labels = archive.windows(replace(selection, kind="labels"))
    labelled = {window.name: window for window in of_labels}

    def snapshots() -> Iterator[tuple[Snapshot, Labels | None]]:
        for window in chosen:
            snapshot, labels = archive.read_snapshot(window, limits), None
            if as_graph is not None:
                snapshot = _renamed(snapshot, as_graph)
            if window.name in labelled:
                message = archive.read_message(labelled[window.name])
                labels = decode_labels(message.key, message.value, message.headers, limits)
                labels = replace(labels, graph=snapshot.graph, snapshot_id=snapshot.id)
            yield snapshot, labels

    return Source(len(chosen), snapshots())


def _renamed(snapshot: Snapshot, graph: str) -> Snapshot:
    prefix, new_id = f"{snapshot.graph}/", snapshot.id
    if new_id.startswith(prefix):
        new_id = f"{graph}/{new_id.removeprefix(prefix)}"
    return replace(snapshot, graph=graph, id=new_id)
