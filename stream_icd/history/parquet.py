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
        rows: number of pairs of a snapshot, of nodes of communities and labels.
        columns, metadata: those of the message's table; stable ids of communities are metadata.
        path, row_group: where its rows are.
        schema: schema of its archived rows, as text.
        received: determines which revision is the newest.
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
    """Return the archive's description of a message; raises `BadInput` for a bad header."""
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
    """Return the table to archive: what the headers say of all rows, and the message's columns.

    Snapshots always have the columns `weight`, `x` and `y`, null where a graph has none, so that
    all files have the same schema.
    """
    kind, said = noted.partition.kind, dict(noted.headers)

    def constant(value: object, type: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, type), table.num_rows)

    columns = {
        "snapshot_id": constant(noted.identity.snapshot_id, pa.string()),
        "revision": constant(noted.identity.revision, pa.string()),
        "received": constant(noted.received[0], pa.timestamp("ms", tz="UTC")),
        "window_start": constant(noted.window.start, pa.timestamp("us", tz="UTC")),
        "window_end": constant(noted.window.end, pa.timestamp("us", tz="UTC")),
    }
    if kind in OF_A_MODEL:
        columns["model"] = constant(noted.identity.model, pa.string())
    if kind == "communities":
        columns["evidence"] = constant(said.get("icd_evidence", b"").decode() or None, pa.string())
        for name in ("bits_saved", *OF_MEMORY):
            number = said.get(f"icd_{name}")
            columns[name] = constant(number and float(number), pa.float64())
    columns |= {name: table[name] for name in table.column_names}
    if kind == "communities":
        columns["community_id"] = _community_ids(noted, table)
    if kind == "snapshots":
        for name in NUMBERS:
            columns[name] = columns.pop(name, pa.nulls(table.num_rows, pa.float64()))
    return pa.table(columns)


def _community_ids(noted: ArchivedWindow, table: pa.Table) -> pa.Array:
    """Return the stable id of each node's community; null if the result has none."""
    ids = stable_ids({key.encode(): value.encode() for key, value in noted.metadata})
    if ids is None:
        return pa.nulls(table.num_rows, pa.int64())
    return pa.array(ids[table["community"].to_numpy()])


def _with_wide_ids(table: pa.Table) -> pa.Table:
    """Return the table with ids of nodes in the one type of their kind."""
    columns = {name: table[name] for name in table.column_names}
    ids = {name: column for name, column in columns.items() if name in NODES}
    kind = wide_type(*ids.values())
    return pa.table(columns | {name: column.cast(kind) for name, column in ids.items()})


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
        windows = [_from_json(one, path, at, schema) for at, one in enumerate(noted)]
        has_times = all("received" in one for one in noted)
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise HistoryDamaged(
            f"{store.place}/{path} is not a file of an archive ({type(error).__name__}: "
            f"{error}): move it away"
        ) from error
    if not _belongs(path, windows, named_by_times=has_times):
        raise HistoryDamaged(
            f"{store.place}/{path} holds other windows than its name says: it was renamed, or "
            "replaced by another file. Put the right file back, or move this one away"
        )
    return windows


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
    """Return the rows of a window, as `rows_of` makes them now, whatever version archived them.

    Raises:
        FileNotFoundError: the file is gone (merged into another one).
        HistoryDamaged: the rows cannot be read.
    """
    try:
        with store.open(noted.path) as file:
            parquet = pq.ParquetFile(file)
            table = parquet.read_row_group(noted.row_group, columns=list(noted.columns))
            return rows_of(noted, _with_wide_ids(table))
    except (FileNotFoundError, MemoryError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise HistoryDamaged(f"{store.place}/{noted.path} cannot be read: {error}") from error


def message_of(noted: ArchivedWindow, rows: pa.Table) -> Message:
    """Return the archived message; its value is encoded as by `encode_snapshot` and others."""
    table = rows.select(list(noted.columns))
    for at, name in enumerate(noted.columns):
        if name in ("x", "y"):  # Parquet leaves any bytes under nulls
            absent = table[name].is_null().to_numpy()
            floats = np.where(absent, 0.0, table[name].to_numpy())
            table = table.set_column(at, name, pa.array(floats, mask=absent))
    return Message(
        key=noted.partition.graph.encode(),
        value=write_table(table.replace_schema_metadata(dict(noted.metadata) or None)),
        headers=noted.headers,
    )


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
