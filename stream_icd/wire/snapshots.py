"""Snapshots on the wire: an edge table, one message per snapshot (docs/wire.md).

The places of nodes are columns of this table, and no messages of their own: so they are archived,
replayed and sent again with the graph that they belong to, and no reader has to join two topics.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_icd.core.errors import BadSnapshot
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import Snapshot, check_id_types, snapshot_from_pairs
from stream_icd.wire.arrow_stream import read_table, write_table
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    EVENT_TYPES,
    EventHeaders,
    Message,
    event_message,
    graph_name_of,
    refusing,
)

SNAPSHOT_COLUMNS = {"src": True, "dst": True, "weight": False, "x": False, "y": False}
_UNORDERED = "icd_unordered"
_CRS = "icd_crs"


def encode_snapshot(snapshot: Snapshot, *, unordered: bool = False) -> Message:
    """Encode the snapshot as a message; the same snapshot gives the same bytes.

    `unordered`: the graph's snapshots are spread over partitions.
    """
    k, places = snapshot.n_communities, snapshot.coordinates
    extra = {
        "icd_content": snapshot.content,
        "icd_k": None if k is None else str(k),
        _CRS: None if places is None else places.crs or None,
        _UNORDERED: "true" if unordered else None,
    }
    return event_message(
        snapshot.graph.encode(),
        write_table(_edge_table(snapshot)),
        type=EVENT_TYPES["snapshots"],
        source=snapshot.source,
        id=snapshot.id,
        time=snapshot.window,
        extra=extra,
    )


def check_snapshot_headers(headers: Headers, limits: Limits) -> EventHeaders:
    """Return the headers of a snapshot, as a reader with these limits takes them; or raise."""
    # Its id is a header of its own in results, so it is no longer than one may be there.
    return EventHeaders(headers, EVENT_TYPES["snapshots"], limits, BadSnapshot, names_in_id=1)


def is_unordered(headers: Headers) -> bool:
    """Whether a graph's snapshots are spread over partitions: then their order says nothing, and
    each is detected without memory."""
    return dict(headers).get(_UNORDERED) == b"true"


def decode_snapshot(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> Snapshot:
    """Decode a snapshot; raises BadSnapshot and LimitExceeded, see `wire.message`."""
    with refusing(BadSnapshot, "the message cannot be read"):
        graph = graph_name_of(key, limits, BadSnapshot)
        fields = check_snapshot_headers(headers, limits)
        table = read_table(value, SNAPSHOT_COLUMNS, limits, BadSnapshot)
        numbers = [name for name in ("weight", "x", "y") if name in table.column_names]
        for name in numbers:
            if not pa.types.is_floating(kind := table.schema.field(name).type):
                raise BadSnapshot(f"{name} has type {kind!s:.80}; send a float")
        # Before a column is taken out: pyarrow holds types in a schema that it has no columns of.
        check_id_types(table.schema.field("src").type, table.schema.field("dst").type)
        return snapshot_from_pairs(
            table["src"],
            table["dst"],
            graph=graph,
            id=fields.text("ce_id"),
            window=fields.window(),
            weights=table["weight"] if "weight" in numbers else None,
            n_communities=fields.whole("icd_k", least=1),
            source=fields.text("ce_source"),
            x=table["x"] if "x" in numbers else None,
            y=table["y"] if "y" in numbers else None,
            crs=fields.optional(_CRS) or "",
        )


def _edge_table(snapshot: Snapshot) -> pa.Table:
    """Return a row for each edge, then one for each node without an edge or with a known place."""
    low, high = snapshot.edges
    declared = np.bincount(snapshot.edges.ravel(), minlength=snapshot.n_nodes) == 0
    if snapshot.coordinates is not None:
        declared |= snapshot.coordinates.known
    alone = np.flatnonzero(declared)
    only_declares = np.zeros(len(low) + len(alone), np.bool_)
    only_declares[len(low) :] = True
    src = pa.array(np.concatenate([low, alone]))
    columns = {"src": snapshot.nodes.take(src)}
    del src  # frees memory for the next column, for large graphs
    dst = pa.array(np.concatenate([high, alone]), mask=only_declares)
    columns["dst"] = snapshot.nodes.take(dst)
    if snapshot.weights is not None:
        columns["weight"] = pa.array(np.concatenate([snapshot.weights, np.zeros(len(alone))]))
    if snapshot.coordinates is not None:
        unplaced = ~only_declares
        unplaced[len(low) :] = ~snapshot.coordinates.known[alone]
        for name, values in (("x", snapshot.coordinates.x), ("y", snapshot.coordinates.y)):
            places = np.concatenate([np.zeros(len(low)), np.nan_to_num(values[alone])])
            columns[name] = pa.array(places, mask=unplaced)
    return pa.table(columns)
