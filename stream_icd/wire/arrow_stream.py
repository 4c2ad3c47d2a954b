"""Write a table as a compressed Arrow IPC stream; check every size before reading one.

pyarrow allocates the decompressed size that a buffer declares, so a message of one megabyte could
request a terabyte. `read_table` therefore checks schema, rows and buffers before pyarrow
decompresses anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from flatbuffers import number_types
from flatbuffers.table import Table as FlatTable

from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.core.node_ids import plain_columns
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import refusing

# Arrow would use its thread pool for each buffer. For messages of a few kilobytes that costs more
# than it gains, and much more on a busy machine.
READING = pa.ipc.IpcReadOptions(use_threads=False)

_ANY_RATIO_BYTES = 16 << 20
"""Up to this size, a table may have any compression ratio."""

_V5 = 4
"""Number of Arrow's format since 1.0; in 0.17, compression was an experiment."""


def write_table(table: pa.Table, compression: str | None = "zstd") -> bytes:
    """Return the table as an Arrow IPC stream of one batch; the same table gives the same bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def read_table(
    value: bytes | pa.Buffer | None,
    columns: Mapping[str, bool] | None,
    limits: Limits,
    error: type[BadInput],
) -> pa.Table:
    """Read the table of an Arrow IPC stream that has only known columns.

    `columns`: whether each column is required; None allows any. Raises `error` if the bytes are
    truncated, foreign or inconsistent; `LimitExceeded` if the table is above `limits`, before
    anything of that size is allocated; `MemoryError` if there is not enough at the moment.
    """
    if not value:
        raise error("the message has no value; an Arrow table was expected")
    with refusing(error, f"not an Arrow IPC stream of {len(value)} bytes"):
        # Before `read_all`, which allocates whatever sizes the buffers declare.
        _check_stream(value, columns, limits, error)
        table = pa.ipc.open_stream(value, options=READING).read_all()
        # Before any value is used: a wrong offset would read memory beyond the message. And before
        # views become plain text: many views may show the same long text.
        return plain_columns(table, lambda size: _check_size(size, value, limits))


def _check_stream(
    value: bytes | pa.Buffer,
    columns: Mapping[str, bool] | None,
    limits: Limits,
    error: type[BadInput],
) -> None:
    messages = iter(pa.ipc.MessageReader.open_stream(value))
    first = next(messages, None)
    if first is None or first.type != "schema":
        raise error("not an Arrow IPC stream: it does not begin with a schema")
    schema = pa.ipc.read_schema(first)
    if columns is not None:
        _check_columns(schema, columns, error)
    rows = size = 0
    for message in messages:
        if message.type != "record batch":
            raise error(f"the stream holds a {message.type}; send plain, not dictionary, columns")
        batch_rows, batch_size = announced(message, error)
        rows, size = rows + batch_rows, size + batch_size
        if rows > limits.rows:
            raise LimitExceeded(f"the table has {rows} rows or more; the limit is {limits.rows}")
        _check_size(size, value, limits)


def _check_size(size: int, value: bytes | pa.Buffer, limits: Limits) -> None:
    if size > limits.decoded_bytes:
        raise LimitExceeded(
            f"the table is {size} bytes or more when decompressed; "
            f"the limit is {limits.decoded_bytes}"
        )
    if size > max(_ANY_RATIO_BYTES, limits.decoded_ratio * len(value)):
        raise LimitExceeded(
            f"the table is {size} bytes or more when decompressed, {size // len(value)} times "
            f"its {len(value)} bytes; the limit is {limits.decoded_ratio} times "
            "(STREAM_ICD_LIMITS_DECODED_RATIO). Send the table uncompressed, or raise the limit"
        )


def _check_columns(schema: pa.Schema, columns: Mapping[str, bool], error: type[BadInput]) -> None:
    if len(schema) > len(columns):
        raise error(f"the table has {len(schema)} columns; expected {', '.join(columns)}")
    missing = [name for name, required in columns.items() if required and name not in schema.names]
    unknown = [name for name in schema.names if name not in columns]
    if missing or unknown or len(set(schema.names)) < len(schema):
        got = ", ".join(name[:40] for name in schema.names)
        raise error(f"the table has columns {got}; expected {', '.join(columns)}")


def announced(message: Any, error: type[BadInput]) -> tuple[int, int]:
    """Return the rows of a record batch or dictionary, and the decompressed bytes of its buffers.

    Reads the flatbuffer of Arrow's Message.fbs: Message.version, .header and .custom_metadata are
    fields 0, 2 and 4; RecordBatch.length, .buffers and .compression are fields 0, 2 and 3; the
    RecordBatch of a DictionaryBatch is its field 1; a Buffer is two int64, offset and length. A
    compressed buffer begins with its decompressed length, an int64, or -1 for "stored plain".
    Before version 5, metadata may say that buffers are compressed.
    """
    metadata, body = memoryview(message.metadata), memoryview(message.body or b"")
    root = FlatTable(metadata, int.from_bytes(metadata[:4], "little"))
    batch = FlatTable(metadata, 0)
    version_at, has_metadata = root.Offset(4), root.Offset(12)
    version = root.Get(number_types.Int16Flags, root.Pos + version_at) if version_at else 0
    if has_metadata and version < _V5:
        raise error("a batch of Arrow's format before V5 has metadata: send format V5 (Arrow 1.0)")
    root.Union(batch, root.Offset(8))
    if message.type == "dictionary":  # files may have them; messages may not
        batch = FlatTable(metadata, batch.Indirect(batch.Pos + batch.Offset(6)))
    length_at, buffers_at, compressed = batch.Offset(4), batch.Offset(8), batch.Offset(10)
    rows = batch.Get(number_types.Int64Flags, batch.Pos + length_at) if length_at else 0
    size = 0
    for index in range(batch.VectorLen(buffers_at) if buffers_at else 0):
        at = batch.Vector(buffers_at) + 16 * index
        offset = batch.Get(number_types.Int64Flags, at)
        length = batch.Get(number_types.Int64Flags, at + 8)
        decompressed = length
        if compressed and length >= 8:
            decompressed = int.from_bytes(body[offset : offset + 8], "little", signed=True)
        # A sender chooses these numbers: a negative one must not lower the sum.
        size += length if decompressed == -1 else abs(decompressed)
    return abs(rows), size
