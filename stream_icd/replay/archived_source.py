"""The archive as a source of snapshots."""

from __future__ import annotations

from dataclasses import replace

from stream_icd.communities import Labels
from stream_icd.errors import BadSettings
from stream_icd.history.archive import (
    Selection,
    nothing_selected,
    read_message,
    read_snapshot,
    windows,
)
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.snapshot import Snapshot
from stream_icd.sources.source import Source
from stream_icd.store.store import Store
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.limits import Limits


def archived_source(store: Store, selection: Selection, as_graph: str | None = None) -> Source:
    """Return archived snapshots in the order of their windows, with their archived labels.

    Args:
        as_graph: renames the graph, also in snapshot ids that begin with its name.

    Raises:
        SourceNotFound, BadSettings: there are no snapshots; the message says why.
        BadSettings: several graphs would get the same name.
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
    known = {
        (noted.partition.graph, noted.identity.snapshot_id): noted
        for noted in windows(store, replace(selection, kind="labels"))
    }
    limits = Limits()
    snapshots = (_renamed(read_snapshot(store, noted, limits), as_graph) for noted in chosen)
    labels = {
        _new_id(graph, snapshot_id, as_graph): noted
        for (graph, snapshot_id), noted in known.items()
    }
    return Source(
        len(chosen),
        ((one, _labels(store, labels.get((one.graph, one.id)), one, limits)) for one in snapshots),
    )


def _new_id(graph: str, snapshot_id: str, as_graph: str | None) -> tuple[str, str]:
    """Return the graph and the id of a snapshot when its graph is renamed to `as_graph`."""
    if as_graph is None:
        return graph, snapshot_id
    prefix = f"{graph}/"
    own = snapshot_id.startswith(prefix)
    return as_graph, f"{as_graph}/{snapshot_id.removeprefix(prefix)}" if own else snapshot_id


def _renamed(snapshot: Snapshot, as_graph: str | None) -> Snapshot:
    graph, new_id = _new_id(snapshot.graph, snapshot.id, as_graph)
    return snapshot if as_graph is None else replace(snapshot, graph=graph, id=new_id)


def _labels(
    store: Store, noted: ArchivedWindow | None, snapshot: Snapshot, limits: Limits
) -> Labels | None:
    if noted is None:
        return None
    message = read_message(store, noted)
    labels = decode_labels(message.key, message.value, message.headers, limits)
    return replace(labels, graph=snapshot.graph, snapshot_id=snapshot.id)
