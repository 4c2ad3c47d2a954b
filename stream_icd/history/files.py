"""The files of an archive: where the messages are, and what is in a file.

The path is `KIND/graph=NAME/date=DAY/FILE.parquet`, from the message's identity alone. So a message
that arrives twice, or is archived again after a crash, has one path.

A file has one row group per window. The rows are those of the message's Arrow table (docs/wire.md),
preceded by columns for the snapshot's id and window, so any Parquet reader can use them. The
footer's key `stream_icd` holds what is needed to rebuild the message.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from typing import Any, Literal, TypeVar, cast, get_args
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from stream_icd.core.errors import BadInput, HistoryDamaged
from stream_icd.core.headers import Headers
from stream_icd.core.node_ids import wide_type
from stream_icd.core.snapshot import Window
from stream_icd.core.store.store import Store
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import MEMBERSHIP, SUMMARY, stable_ids
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import EVENT_TYPES, EventHeaders, Message, graph_name_of

_Content = TypeVar("_Content")

FileKind = Literal["snapshots", "labels", "communities", "events", "memory"]
FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)

SnapshotName = tuple[str, str]
"""Graph and snapshot id."""

_COMPACTED = "compacted-"
_FOOTER, _FOOTER_CRC = b"stream_icd", b"stream_icd_crc32"
_NO_FOOTER = (pa.ArrowException, OSError, LookupError, ValueError, TypeError, RecursionError)
"""Exceptions that reading the footer of another file can raise."""

_OF_A_MODEL: tuple[FileKind, ...] = ("communities", "events", "memory")
_REVISION_DIGITS = 12
_DECODED_BEFORE = Limits.model_construct(header_bytes=sys.maxsize, name_bytes=sys.maxsize)
"""A message is decoded within its reader's limits before it is archived."""
_NODES = "src", "dst", "node"
_OPTIONAL: dict[FileKind, dict[str, pa.DataType]] = {
    "snapshots": dict.fromkeys(("weight", "x", "y"), pa.float64()),
    "communities": MEMBERSHIP,
    "events": {"name": pa.string()},
}
"""Columns that messages may lack, and archived rows have, so that all files have one schema."""


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """The identity of a message within its kind and graph: each identity is kept once."""

    snapshot_id: str
    model: str = ""  # of communities, events and memory
    revision: str = ""  # changes with the content and with the detector's settings; may be empty

    @property
    def name(self) -> tuple[str, str]:
        """Snapshot and model, which all its revisions share."""
        return self.snapshot_id, self.model

    @property
    def file(self) -> str:
        """The file name of its window: readable, and unique by a digest."""
        readable = re.sub(r"[^A-Za-z0-9.-]+", "-", self.snapshot_id.rpartition("/")[2])[:60]
        return f"w-{readable}-{_digest(_text(self))}.parquet"


Received = tuple[int, int]
"""When Kafka received a message, milliseconds since 1970 UTC, and its offset: the revision received
last is the newest."""


@dataclass(frozen=True, slots=True, order=True)
class ArchivedDay:
    """One day of one graph: the windows that begin on that day, UTC."""

    day: date
    graph: str
    kind: FileKind

    @property
    def folder(self) -> str:
        """Its folder in the store; the graph's name is URL-encoded, as readers expect."""
        return f"{self.kind}/{self.folder_of(self.graph)}/date={self.day.isoformat()}"

    @staticmethod
    def folder_of(graph: str) -> str:
        return f"graph={quote(graph, safe='')}"

    @classmethod
    def of(cls, kind: FileKind, graph: str, window: Window) -> ArchivedDay:
        return cls(window.start.astimezone(UTC).date(), graph, kind)

    @classmethod
    def at(cls, folder: str) -> ArchivedDay | None:
        """The day of a folder; None if it is none of an archive."""
        kind, graph, day = folder.split("/")
        with suppress(ValueError):
            day_of = date.fromisoformat(day.removeprefix("date="))
            archived = cls(day_of, unquote(graph.removeprefix("graph=")), cast(FileKind, kind))
            if archived.folder == folder:  # no other folder means the same, such as date=20260101
                return archived
        return None


def is_compacted(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_COMPACTED)


def _text(identity: Identity) -> str:
    revision = f"@{identity.revision!r}" if identity.revision else ""
    return f"{identity.snapshot_id!r}@{identity.model!r}{revision}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class ArchivedWindow:
    """A message in the archive, as described by the footer of its file."""

    partition: ArchivedDay
    identity: Identity
    window: Window
    rows: int  # number of pairs of a snapshot, of nodes of communities and labels, of events
    columns: tuple[str, ...]  # of the message's table
    headers: Headers
    path: str = ""
    row_group: int = 0
    schema: str = ""  # of its archived rows, as text
    n_bytes: int = 0  # size of these rows in the file, before compression
    received: Received = (0, 0)
    metadata: tuple[tuple[str, str], ...] = ()  # of the message's table, such as stable ids

    @classmethod
    def of(
        cls, kind: FileKind, message: Message, table: pa.Table, received: Received = (0, 0)
    ) -> ArchivedWindow:
        """Describe a message with this table; raises `BadInput` for a bad header."""
        fields = EventHeaders(message.headers, EVENT_TYPES[kind], _DECODED_BEFORE, BadInput)
        graph, window = graph_name_of(message.key, _DECODED_BEFORE, BadInput), fields.window()
        snapshot_id = fields.text("ce_id" if kind == "snapshots" else "icd_snapshot_id")
        model = fields.text("icd_model") if kind in _OF_A_MODEL else ""
        return cls(
            partition=ArchivedDay.of(kind, graph, window),
            identity=Identity(snapshot_id, model, _revision(kind, fields, message)),
            window=window,
            rows=table.num_rows,
            columns=tuple(table.column_names),
            headers=message.headers,
            received=received,
            metadata=tuple(
                (a.decode(), b.decode()) for a, b in (table.schema.metadata or {}).items()
            ),
        )

    @property
    def name(self) -> SnapshotName:
        """The key that a snapshot, its labels, its results and its memory have in common."""
        return self.partition.graph, self.identity.snapshot_id

    @staticmethod
    def merged_file(windows: Iterable[ArchivedWindow]) -> str:
        """Return the name of the merged file of windows; equal windows give equal names."""
        merged = sorted((window.identity, window.received) for window in windows)
        text = "\n".join(f"{_text(identity)} {received}" for identity, received in merged)
        return f"{_COMPACTED}{_digest(text)}.parquet"

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: windows in time order, revisions from the oldest to the newest."""
        window = self.window.start, self.window.end
        return (*window, self.partition.graph, *self.identity.name, self.received, self.identity)

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the table to archive: what the headers say of all rows, and the message's columns.

        Those of `_OPTIONAL` are null where the message has none.
        """
        kind, headers = self.partition.kind, dict(self.headers)

        def constant(value: object, type: pa.DataType) -> pa.Array:
            return pa.repeat(pa.scalar(value, type), table.num_rows)

        columns = {
            "snapshot_id": constant(self.identity.snapshot_id, pa.string()),
            "revision": constant(self.identity.revision, pa.string()),
            "received": constant(self.received[0], pa.timestamp("ms", tz="UTC")),
            "window_start": constant(self.window.start, pa.timestamp("us", tz="UTC")),
            "window_end": constant(self.window.end, pa.timestamp("us", tz="UTC")),
        }
        if kind in _OF_A_MODEL:
            columns["model"] = constant(self.identity.model, pa.string())
        if kind == "communities":
            for name, type in SUMMARY.items():
                text = headers.get(f"icd_{name}", b"").decode()
                columns[name] = constant(_value(text, type), type)
        columns |= {name: table[name] for name in table.column_names}
        if kind == "communities":
            ids = stable_ids({key.encode(): value.encode() for key, value in self.metadata})
            none = pa.nulls(table.num_rows, pa.int64())
            of_nodes = none if ids is None else pa.array(ids[table["community"].to_numpy()])
            columns["community_id"] = of_nodes  # earlier versions have it in the metadata only
        for name, type in _OPTIONAL.get(kind, {}).items():
            columns[name] = columns.pop(name, pa.nulls(table.num_rows, type))
        return pa.table(columns)

    def read(self, store: Store) -> pa.Table:
        """Return the rows of a window, as `rows_of` makes them now, whatever version archived them.

        Raises as `read_footer`; a file is gone when it was merged into another one.
        """

        def table_in(file: pa.NativeFile) -> pa.Table:
            parquet = pq.ParquetFile(file, page_checksum_verification=True)
            columns = list(self.columns)
            table = parquet.read_row_group(self.row_group, columns=columns).select(columns)
            if len(table) != self.rows:  # Parquet's own count has no checksum
                raise pa.ArrowInvalid(f"it has {len(table)} rows in place of {self.rows}")
            return table

        try:
            return self.rows_of(_with_wide_ids(_read(store, self.path, table_in)))
        # Before their own kinds below: a file that was merged, or lack of memory, is no damage.
        except (FileNotFoundError, MemoryError):
            raise
        except (pa.ArrowException, OSError, LookupError) as error:
            raise HistoryDamaged(
                f"{store.place}/{self.path} cannot be read: {error}. Restore it from a copy, or "
                "move it away to go on without it"
            ) from error

    def message(self, rows: pa.Table) -> Message:
        """Return the archived message; its value is encoded as by `encode_snapshot` and others."""
        table = rows.select(list(self.columns))
        for at, name in enumerate(self.columns):
            if name in ("x", "y", *MEMBERSHIP):  # Parquet leaves any bytes under nulls
                kind, absent = table[name].type, table[name].is_null().to_numpy()
                zero = pa.scalar(0, kind)
                numbers = table[name].fill_null(zero).combine_chunks().to_numpy()
                table = table.set_column(at, name, pa.array(numbers, kind, mask=absent))
        return Message(
            key=self.partition.graph.encode(),
            value=write_table(table.replace_schema_metadata(dict(self.metadata) or None)),
            headers=self.headers,
        )


def _revision(kind: FileKind, fields: EventHeaders, message: Message) -> str:
    if kind in _OF_A_MODEL:
        return fields.optional("icd_revision") or ""
    if kind == "snapshots":
        return (fields.optional("icd_content") or "")[:_REVISION_DIGITS]
    return hashlib.sha256(message.value).hexdigest()[:_REVISION_DIGITS]


def _value(text: str, type: pa.DataType) -> str | float | None:
    if not text:
        return None
    return float(text) if pa.types.is_floating(type) else text


def _with_wide_ids(table: pa.Table) -> pa.Table:
    """Return the table with ids of nodes in the one type of their kind, if there are any."""
    columns = {name: table[name] for name in table.column_names}
    ids = {name: column for name, column in columns.items() if name in _NODES}
    if not ids:
        return table
    kind = wide_type(*ids.values())
    return pa.table(columns | {name: column.cast(kind) for name, column in ids.items()})


def to_parquet(windows: Sequence[ArchivedWindow], rows: Iterable[pa.Table]) -> pa.Buffer:
    """Return the bytes of a file of these windows, whose rows (`rows_of`) have one schema.

    The same windows give the same bytes. Rows are taken one window at a time. Pages and footer have
    checksums, since most changed bits would change values only.
    """
    footer = json.dumps([_to_json(window) for window in windows]).encode()
    sink, tables = pa.BufferOutputStream(), iter(rows)
    first = next(tables)
    schema = first.schema.with_metadata({_FOOTER: footer, _FOOTER_CRC: _crc(footer)})
    options = {"compression": "zstd", "write_page_checksum": True}
    # The values of lists are called `item`, as in a message, whose bytes depend on it.
    with pq.ParquetWriter(sink, schema, use_compliant_nested_type=False, **options) as writer:
        for table in chain([first], tables):
            # At least 1, or pyarrow refuses the row group of a window without rows.
            writer.write_table(table.combine_chunks(), row_group_size=max(table.num_rows, 1))
    return sink.getvalue()


def _crc(footer: bytes) -> bytes:
    return str(zlib.crc32(footer)).encode()


def read_footer(store: Store, path: str) -> list[ArchivedWindow]:
    """Return the windows of a file; reads only its footer.

    Raises:
        FileNotFoundError, StoreUnreachable: there is no such file, or no answer.
        HistoryDamaged: it is not an archive file, or not the one that belongs there.
    """
    try:
        footer = _read(store, path, pq.read_metadata)
        schema = str(footer.schema.to_arrow_schema().remove_metadata())
        text, crc = footer.metadata[_FOOTER], footer.metadata.get(_FOOTER_CRC)
        if crc not in (None, _crc(text)):  # other programs may write none
            raise ValueError("the checksum of its footer is wrong")
        entries = json.loads(text)
        sizes = [footer.row_group(at).total_byte_size for at in range(len(entries))]
        windows = [_from_json(entry, path, at, schema, sizes) for at, entry in enumerate(entries)]
        has_times = all("received" in entry for entry in entries)
    except (FileNotFoundError, MemoryError):
        raise
    except _NO_FOOTER as error:
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


def _read(store: Store, path: str, read: Callable[[pa.NativeFile], _Content]) -> _Content:
    """Read from a file; where that fails, from its bytes in memory, which tells file from store.

    In an object store, a file may be replaced while it is read, since its message came again.
    """
    try:
        with store.open(path) as file:
            return read(file)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowInvalid):
        content = store.read(path, store.size(path))
        return read(pa.BufferReader(content or b""))


def _belongs(path: str, windows: Sequence[ArchivedWindow], *, named_by_times: bool) -> bool:
    """Whether a file of these windows has this path.

    The name of a merged file depends on when its windows were received, but in the first version.
    """
    folder, _, name = path.rpartition("/")
    if not windows or any(window.partition.folder != folder for window in windows):
        return False
    if not is_compacted(path):
        return [window.identity.file for window in windows] == [name]
    return not named_by_times or ArchivedWindow.merged_file(windows) == name


def _to_json(window: ArchivedWindow) -> dict[str, Any]:
    return {
        "graph": window.partition.graph,
        "snapshot_id": window.identity.snapshot_id,
        "model": window.identity.model,
        "revision": window.identity.revision,
        "received": window.received,
        "window_start": window.window.start.isoformat(),
        "window_end": window.window.end.isoformat(),
        "rows": window.rows,
        "columns": window.columns,
        # Lossless for any bytes; text, the usual case, stays readable.
        "headers": [
            [name, value.decode("utf-8", "surrogateescape")] for name, value in window.headers
        ],
        "metadata": dict(window.metadata),
    }


def _from_json(
    entry: dict[str, Any], path: str, row_group: int, schema: str, sizes: Sequence[int]
) -> ArchivedWindow:
    start, end = (datetime.fromisoformat(entry[name]) for name in ("window_start", "window_end"))
    window = Window(start, end)
    headers = ((name, value.encode("utf-8", "surrogateescape")) for name, value in entry["headers"])
    return ArchivedWindow(
        partition=ArchivedDay.of(cast(FileKind, path.split("/")[0]), entry["graph"], window),
        # Files of the first version have neither revisions nor times.
        identity=Identity(entry["snapshot_id"], entry["model"], entry.get("revision", "")),
        window=window,
        rows=entry["rows"],
        columns=tuple(entry["columns"]),
        headers=tuple(headers),
        path=path,
        row_group=row_group,
        schema=schema,
        n_bytes=sizes[row_group],
        received=cast(Received, tuple(entry.get("received", (0, 0)))),
        metadata=tuple(entry.get("metadata", {}).items()),
    )
