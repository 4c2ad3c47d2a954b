"""Community events on the wire: a table of events, one message per snapshot (docs/wire.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import Ids
from stream_icd.core.errors import BadEvents
from stream_icd.core.events import EVENT_KINDS, CommunityEvent, CommunityEvents, EventKind
from stream_icd.core.headers import Headers
from stream_icd.core.node_ids import is_id_type
from stream_icd.wire.arrow_stream import read_table, write_table
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    EVENT_TYPES,
    EventHeaders,
    Field,
    Fields,
    Message,
    event_message,
    graph_name_of,
    headers_of,
    refusing,
    result_id,
)

_IDS = pa.list_(pa.int64())
_FIELDS: dict[str, pa.DataType] = {
    "event": pa.string(),
    "community": pa.int64(),
    "label": pa.int32(),
    "size": pa.int64(),
    "size_before": pa.int64(),
    "overlap": pa.float64(),
    "parents": _IDS,
    "children": _IDS,
    "away": pa.int32(),
    "bits": pa.float64(),
    "name": pa.string(),
}
_Columns = dict[str, pa.Array]

_HEADERS: Fields = {
    "icd_model": Field("model"),
    "icd_missed": Field("missed", "whole"),
    "icd_late": Field("late", "flag"),
    "icd_next_community": Field("next_community", "whole"),
    "icd_model_before": Field("model_before", optional=True),
    "icd_revision": Field("revision", optional=True, absent=""),
    "icd_snapshot_place": Field("snapshot_place", optional=True, absent=""),
}

_BATCH_ROWS = 1 << 12
_OPTIONAL = ("bits", "name")
_NULLABLE = {"label", "overlap", "members", *_OPTIONAL}
_SENT_AS_BORN: EventKind = "returned"
"""Earlier readers know no such event: it is a birth of a community that was away."""
_WIRE_KINDS = tuple(kind for kind in EVENT_KINDS if kind != _SENT_AS_BORN)
EVENT_COLUMNS = {**dict.fromkeys([*_FIELDS, "members"], True), **dict.fromkeys(_OPTIONAL, False)}
"""Earlier versions have no column `bits`; where nothing is named, there is no column `name`."""


def encode_events(tracked: CommunityEvents) -> Message:
    """Encode events as a message; the same events give the same bytes."""
    table = event_table(replace(tracked, events=tuple(map(_as_read_earlier, tracked.events))))
    if table["name"].null_count == len(table):  # the column is optional
        table = table.drop(["name"])
    return event_message(
        tracked.graph.encode(),
        write_table(table),
        type=EVENT_TYPES["events"],
        source="stream_icd/track",
        id=result_id(tracked.snapshot_id, tracked.model, tracked.revision),
        time=tracked.window,
        snapshot_id=tracked.snapshot_id,
        extra=headers_of(_HEADERS, tracked),
    )


def event_table(tracked: CommunityEvents) -> pa.Table:
    """Return one row per event; the first row of each present community lists its members."""
    columns = {}
    for name, kind in _FIELDS.items():
        attribute = "kind" if name == "event" else name
        columns[name] = pa.array([getattr(event, attribute) for event in tracked.events], kind)
    return pa.table({**columns, "members": _members(tracked)})


def decode_events(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> CommunityEvents:
    """Decode events, with nodes in ascending order.

    Raises BadEvents and LimitExceeded, see `wire.message`.
    """
    with refusing(BadEvents, "the message cannot be read"):
        fields = EventHeaders(headers, EVENT_TYPES["events"], limits, BadEvents)
        table = read_table(value, EVENT_COLUMNS, limits, BadEvents)
        columns = {name: pa.nulls(table.num_rows, _FIELDS[name]) for name in _OPTIONAL}
        columns |= {name: table[name].combine_chunks() for name in table.column_names}
        _check(columns)
        attributes = fields.read(_HEADERS)
        _check_numbers(columns, attributes["next_community"])
        nodes, communities = _nodes(columns["members"], columns["community"])
        return CommunityEvents(
            graph=graph_name_of(key, limits, BadEvents),
            snapshot_id=fields.text("icd_snapshot_id"),
            window=fields.window(),
            nodes=nodes,
            communities=communities,
            events=tuple(_events(columns)),
            **attributes,
        )


def is_late(headers: Headers) -> bool:
    """Whether the message only reports that its window was late."""
    return dict(headers).get("icd_late") == b"true"


def _as_read_earlier(event: CommunityEvent) -> CommunityEvent:
    return replace(event, kind="born") if event.kind == _SENT_AS_BORN else event


def _members(tracked: CommunityEvents) -> pa.Array:
    """Return `(n_events,)` lists of nodes, null except in the first row of each community."""
    order = np.argsort(tracked.communities, kind="stable")
    ids, starts, counts = np.unique(
        tracked.communities[order], return_index=True, return_counts=True
    )
    place = {community: at for at, community in enumerate(ids.tolist())}
    # Offsets end with the last one of all; without communities there is still one.
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(starts, starts[-1] + counts[-1]) if len(ids) else [0], pa.int32()),
        tracked.nodes.take(pa.array(order)),
    )
    # `pop`: a second event of the community does not list its members again.
    at = [
        place.pop(row.community, None) if row.label is not None else None for row in tracked.events
    ]
    return lists.take(pa.array(at, pa.int32()))


def _check(columns: _Columns) -> None:
    for name, kind in _FIELDS.items():
        if columns[name].type != kind:
            raise BadEvents(f"{name} has type {columns[name].type!s:.80}; expected {kind}")
    members = columns["members"].type
    if not pa.types.is_list(members) or not is_id_type(members.value_type):
        raise BadEvents(f"members has type {members!s:.80}; expected a list of ids")
    nulls = [name for name in _FIELDS if name not in _NULLABLE and columns[name].null_count]
    if nulls:
        raise BadEvents(f"there are nulls in {', '.join(nulls)}")
    unknown = set(columns["event"].to_pylist()) - set(_WIRE_KINDS)
    if unknown:
        raise BadEvents(f"unknown event {min(unknown)!r:.40}; expected {', '.join(_WIRE_KINDS)}")


def _check_numbers(columns: _Columns, next_community: int) -> None:
    for name in ("label", "size", "size_before", "away"):
        _check_range(name, columns[name], np.inf)
    _check_range("overlap", columns["overlap"], 1)
    if not np.isfinite(columns["bits"].drop_null().to_numpy()).all():
        raise BadEvents("bits is not a finite number")
    _check_range("community", columns["community"], next_community - 1)
    for name in ("parents", "children"):
        _check_range(name, columns[name].flatten(), next_community - 1)


def _check_range(name: str, column: pa.Array, most: float) -> None:
    if column.null_count and name not in _NULLABLE:
        raise BadEvents(f"there are nulls in {name}")
    values = column.drop_null().to_numpy()
    good = (values >= 0) & (values <= most)  # False for NaN
    if not good.all():
        raise BadEvents(f"{name} is {values[~good][0]}; expected a number from 0 to {most}")


def _nodes(members: pa.ListArray, community: pa.Array) -> tuple[pa.Array, Ids]:
    import pyarrow.compute as pc  # a tenth of the start of a subscriber that gets no events

    nodes = members.flatten()
    lengths = pc.fill_null(pc.list_value_length(members), 0).to_numpy()
    communities = np.repeat(community.to_numpy(), lengths)
    if nodes.null_count or len(pc.unique(nodes)) < len(nodes):
        raise BadEvents("a node is null, or a member of two communities")
    order = pc.sort_indices(nodes)
    return nodes.take(order), communities[order.to_numpy()].astype(np.int64)


def _events(columns: _Columns) -> Iterator[CommunityEvent]:
    # All rows at once would take half as much memory more.
    starts = range(0, len(columns["event"]), _BATCH_ROWS)
    batches = (
        [columns[name].slice(at, _BATCH_ROWS).to_pylist() for name in _FIELDS] for at in starts
    )
    rows = (row for batch in batches for row in zip(*batch, strict=True))
    for kind, community, label, size, before, overlap, parents, children, away, bits, name in rows:
        yield CommunityEvent(
            kind=_SENT_AS_BORN if kind == "born" and away else kind,
            community=community,
            label=label,
            size=size,
            size_before=before,
            overlap=overlap,
            parents=tuple(parents),
            children=tuple(children),
            away=away,
            bits=bits,
            name=name,
        )
