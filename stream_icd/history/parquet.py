"""The format of a Parquet file: one row group per window; message headers are in the footer.

The rows are those of the message's Arrow table (docs/wire.md), preceded by columns for the
snapshot's id and window, so any Parquet reader can use them. The footer's key `stream_icd` holds
what is needed to rebuild the message.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stream_icd.errors import BadInput, HistoryDamaged
from stream_icd.history.layout import (
    Identity,
    Kind,
    Partition,
    Received,
    compacted_file,
    is_compacted,
    partition_of,
    window_file,
)
from stream_icd.node_ids import wide_type
from stream_icd.snapshot import Window
from stream_icd.store.store import Store
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import COMMUNITIES_TYPE, LABELS_TYPE, stable_ids
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import EventHeaders, Headers, Message, graph_of
from stream_icd.wire.snapshots import SNAPSHOT_TYPE
from stream_icd.wire.states import STATE_TYPE

FOOTER = b"stream_icd"
TYPES: dict[Kind, str] = {
    "snapshots": SNAPSHOT_TYPE,
    "labels": LABELS_TYPE,
    "communities": COMMUNITIES_TYPE,
    "memory": STATE_TYPE,
}
OF_A_MODEL: tuple[Kind, ...] = ("communities", "memory")
ZONED = pa.timestamp("us", tz="UTC")
MILLISECONDS = pa.timestamp("ms", tz="UTC")
REVISION_DIGITS = 12
DECODED_BEFORE = Limits.model_construct(header_bytes=sys.maxsize, name_bytes=sys.maxsize)
"""A message is decoded within its reader's limits before it is archived."""
NODES = "src", "dst", "node"
NUMBERS = "weight", "x", "y"
"""The optional columns of snapshots."""
OF_MEMORY = "horizon", "predicted_bits"
"""How far back a result looked, and how well the communities before predicted its window."""


@dataclass(frozen=True, slots=True)
class ArchivedWindow:
    """A message in the archive, as described by the footer of its file.

    Attributes:
        partition: kind, graph and day.
        identity: snapshot id, model of communities or memory, and revision.
        window: the span of event time.
        rows: pairs of a snapshot, nodes of communities and labels.
        columns: those of the message's table.
        headers: headers of the message, unchanged.
        path, row_group: where its rows are.
        schema: schema of its archived rows, as text.
        metadata: that of the message's table, such as the stable ids of communities.
        received: when it was received; determines which revision is the newest.
    """

    partition: Partition
    identity: Identity
    window: Window
    rows: int
    columns: tuple[str, ...]
    headers: Headers
    path: str = ""
    row_group: int = 0
    schema: str = ""
    received: Received = (0, 0)
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: windows in time order, revisions from the oldest to the newest."""
        window = self.window.start, self.window.end
        return (*window, self.partition.graph, *self.identity.name, self.received, self.identity)


def describe(
    kind: Kind, message: Message, table: pa.Table, received: Received = (0, 0)
) -> ArchivedWindow:
    """Return the archive's description of a message, from its headers.

    Raises:
        BadInput: a header is missing or wrong.
    """
    fields = EventHeaders(message.headers, TYPES[kind], DECODED_BEFORE, BadInput)
    graph, window = graph_of(message.key, DECODED_BEFORE, BadInput), fields.window()
    snapshot_id = fields.text("ce_id" if kind == "snapshots" else "icd_snapshot_id")
    model = fields.text("icd_model") if kind in OF_A_MODEL else ""
    return ArchivedWindow(
        partition=partition_of(kind, graph, window),
        identity=Identity(snapshot_id, model, _revision(kind, fields, message)),
        window=window,
        rows=table.num_rows,
        columns=tuple(table.column_names),
        headers=message.headers,
        received=received,
        metadata=tuple((a.decode(), b.decode()) for a, b in (table.schema.metadata or {}).items()),
    )


def _revision(kind: Kind, fields: EventHeaders, message: Message) -> str:
    if kind in OF_A_MODEL:
        return fields.optional("icd_revision") or ""
    if kind == "snapshots":
        return (fields.optional("icd_content") or "")[:REVISION_DIGITS]
    return hashlib.sha256(message.value).hexdigest()[:REVISION_DIGITS]


def rows_of(noted: ArchivedWindow, table: pa.Table) -> pa.Table:
    """Return the table to archive: snapshot, revision, window, model, then the message's columns.

    Snapshots always have the columns `weight`, `x` and `y`, null where a graph has none, so that
    all files have the same schema.
    """
    kind, n = noted.partition.kind, table.num_rows
    columns = {
        "snapshot_id": pa.repeat(pa.scalar(noted.identity.snapshot_id), n),
        "revision": pa.repeat(pa.scalar(noted.identity.revision), n),
        "received": pa.repeat(pa.scalar(noted.received[0], MILLISECONDS), n),
        "window_start": pa.repeat(pa.scalar(noted.window.start, ZONED), n),
        "window_end": pa.repeat(pa.scalar(noted.window.end, ZONED), n),
    }
    if kind in OF_A_MODEL:
        columns["model"] = pa.repeat(pa.scalar(noted.identity.model), n)
    if kind == "communities":
        columns |= _columns_of_headers(noted.headers, n)
    columns |= {name: table[name] for name in table.column_names}
    if kind == "communities":
        columns["community_id"] = _community_ids(noted, table)
    if kind == "snapshots":
        for name in NUMBERS:
            columns[name] = columns.pop(name, pa.nulls(n, pa.float64()))
    return pa.table(columns)


def _columns_of_headers(headers: Headers, n: int) -> dict[str, pa.Array]:
    """Return what a result's headers say of its communities; null where they say nothing."""
    said = dict(headers)
    evidence = said.get("icd_evidence")
    numbers = {name: said.get(f"icd_{name}") for name in ("bits_saved", *OF_MEMORY)}
    return {
        "evidence": pa.repeat(pa.scalar(evidence and evidence.decode(), pa.string()), n),
        **{
            name: pa.repeat(pa.scalar(number and float(number), pa.float64()), n)
            for name, number in numbers.items()
        },
    }


def _community_ids(noted: ArchivedWindow, table: pa.Table) -> pa.Array:
    """Return the stable id of each node's community; null if the result has none."""
    ids = stable_ids({key.encode(): value.encode() for key, value in noted.metadata})
    if ids is None:
        return pa.nulls(table.num_rows, pa.int64())
    return pa.array(ids[table["community"].to_numpy()])


def _with_wide_ids(table: pa.Table) -> pa.Table:
    """Return the table with ids of nodes in the one type of their kind."""
    names = [name for name in NODES if name in table.column_names]
    kind = wide_type(*(table[name] for name in names))
    for name in names:
        if table[name].type != kind:
            at = table.column_names.index(name)
            table = table.set_column(at, name, table[name].cast(kind))
    return table


def _of_this_version(noted: ArchivedWindow, rows: pa.Table) -> pa.Table:
    """Widen ids of nodes, and add columns, as this version would have written the rows."""
    rows = _with_wide_ids(rows)
    if noted.partition.kind == "snapshots":
        for name in NUMBERS:
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.float64()))
    if noted.partition.kind != "communities":
        return rows
    columns = _columns_of_headers(noted.headers, rows.num_rows)
    for at, (name, column) in enumerate(columns.items(), rows.column_names.index("model") + 1):
        if name not in rows.column_names:
            rows = rows.add_column(at, name, column)
    if "community_id" not in rows.column_names:
        rows = rows.append_column("community_id", _community_ids(noted, rows))
    return rows


def to_parquet(windows: Sequence[ArchivedWindow], rows: Iterable[pa.Table]) -> pa.Buffer:
    """Return the bytes of a file of these windows, whose rows (`rows_of`) have one schema.

    The same windows give the same bytes. Rows are taken one window at a time.
    """
    footer = json.dumps([_to_json(noted) for noted in windows])
    sink, tables = pa.BufferOutputStream(), iter(rows)
    first = next(tables)
    schema = first.schema.with_metadata({FOOTER: footer})
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in chain([first], tables):
            # At least 1, or pyarrow refuses the row group of a window without rows.
            writer.write_table(table.combine_chunks(), row_group_size=max(table.num_rows, 1))
    return sink.getvalue()


def read_footer(store: Store, path: str) -> list[ArchivedWindow]:
    """Return the windows of a file; reads only its footer.

    Raises:
        FileNotFoundError: the file does not exist.
        HistoryDamaged: the file is not an archive file, or not the one that belongs there.
    """
    try:
        with store.open(path) as file:
            footer = pq.read_metadata(file)
        schema = str(footer.schema.to_arrow_schema().remove_metadata())
        noted = json.loads(footer.metadata[FOOTER])
        found = [_from_json(one, path, at, schema) for at, one in enumerate(noted)]
        has_times = all("received" in one for one in noted)
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise HistoryDamaged(
            f"{store.place}/{path} is not a file of an archive ({type(error).__name__}: "
            f"{error}): move it away"
        ) from error
    if not _belongs(path, found, named_by_times=has_times):
        raise HistoryDamaged(
            f"{store.place}/{path} holds other windows than its name says: it was renamed, or "
            "replaced by another file. Put the right file back, or move this one away"
        )
    return found


def _belongs(path: str, found: Sequence[ArchivedWindow], *, named_by_times: bool) -> bool:
    """Whether a file of these windows has this path.

    Args:
        named_by_times: whether the name of a merged file depends on when its windows were received;
            those of the first version do not.
    """
    folder, _, name = path.rpartition("/")
    if not found or any(noted.partition.folder != folder for noted in found):
        return False
    if not is_compacted(path):
        return [window_file(noted.identity) for noted in found] == [name]
    windows = ((noted.identity, noted.received) for noted in found)
    return not named_by_times or compacted_file(windows) == name


def read_rows(store: Store, noted: ArchivedWindow) -> pa.Table:
    """Return the rows of a window, as `rows_of` made them.

    Raises:
        FileNotFoundError: the file is gone (merged into another one).
        HistoryDamaged: the rows cannot be read.
    """
    try:
        with store.open(noted.path) as file:
            rows = pq.ParquetFile(file).read_row_group(noted.row_group)
            return _of_this_version(noted, rows.replace_schema_metadata(None))
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise HistoryDamaged(f"{store.place}/{noted.path} cannot be read: {error}") from error


def message_of(noted: ArchivedWindow, rows: pa.Table) -> Message:
    """Return the archived message; its value is encoded as by `encode_snapshot` and others."""
    table = rows.select(list(noted.columns))
    for name in {"x", "y"} & set(noted.columns):
        at = table.column_names.index(name)
        table = table.set_column(at, name, _zeros_under_nulls(table[name]))
    return Message(
        key=noted.partition.graph.encode(),
        value=write_table(table.replace_schema_metadata(dict(noted.metadata) or None)),
        headers=noted.headers,
    )


def _zeros_under_nulls(column: pa.ChunkedArray) -> pa.Array:
    """Return the same column of floats; Parquet leaves any bytes under its nulls."""
    absent = column.is_null().to_numpy()
    return pa.array(np.where(absent, 0.0, column.to_numpy()), mask=absent)


def _to_json(noted: ArchivedWindow) -> dict[str, Any]:
    return {
        "graph": noted.partition.graph,
        "snapshot_id": noted.identity.snapshot_id,
        "model": noted.identity.model,
        "revision": noted.identity.revision,
        "received": noted.received,
        "window_start": noted.window.start.isoformat(),
        "window_end": noted.window.end.isoformat(),
        "rows": noted.rows,
        "columns": noted.columns,
        # Lossless for any bytes; text, the usual case, stays readable.
        "headers": [
            [name, value.decode("utf-8", "surrogateescape")] for name, value in noted.headers
        ],
        "metadata": dict(noted.metadata),
    }


def _from_json(one: dict[str, Any], path: str, row_group: int, schema: str) -> ArchivedWindow:
    window = Window(
        datetime.fromisoformat(one["window_start"]), datetime.fromisoformat(one["window_end"])
    )
    headers = ((name, value.encode("utf-8", "surrogateescape")) for name, value in one["headers"])
    return ArchivedWindow(
        partition=partition_of(cast(Kind, path.split("/")[0]), one["graph"], window),
        # Files of the first version have neither revisions nor times.
        identity=Identity(one["snapshot_id"], one["model"], one.get("revision", "")),
        window=window,
        rows=one["rows"],
        columns=tuple(one["columns"]),
        headers=tuple(headers),
        path=path,
        row_group=row_group,
        schema=schema,
        received=cast(Received, tuple(one.get("received", (0, 0)))),
        metadata=tuple(one.get("metadata", {}).items()),
    )
