"""Read files of one snapshot up to its limits: of a few kB, a file can stand for any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import IO, TypeVar

import pyarrow as pa
from flatbuffers import number_types
from flatbuffers.table import Table as FlatTable

from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.core.node_ids import plain_columns
from stream_icd.sources.parquet import parquet_parts
from stream_icd.sources.tables import RawRows
from stream_icd.wire.arrow_stream import announced
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import refusing

_Batch = TypeVar("Batch", RawRows, pa.Table)


def whole(content: IO[bytes], limits: Limits) -> bytes:
    """Return a file that cannot be read in parts; raise `LimitExceeded` if it is too large."""
    value = content.read(limits.decoded_bytes + 1)
    _check_size(0, len(value), limits)
    return value


def within(batches: Iterable[_Batch], limits: Limits) -> Iterator[_Batch]:
    """Yield the batches of a snapshot; raise `LimitExceeded` when they are too large together."""
    n_rows = size = 0
    for batch in batches:
        table = batch.rows if isinstance(batch, RawRows) else batch
        n_rows, size = n_rows + len(table), size + table.nbytes
        _check_size(n_rows, size, limits)
        yield batch


def _check_size(n_rows: int, size: int, limits: Limits) -> None:
    for unit, found, name in (("rows", n_rows, "rows"), ("bytes", size, "decoded_bytes")):
        if found > (most := getattr(limits, name)):
            raise LimitExceeded(
                f"it has more than {most:,} {unit}, the limit of a snapshot: divide it into "
                f"several files, or set STREAM_ICD_LIMITS_{name.upper()}, here and for all readers"
            )


def parquet_table(
    content: IO[bytes], schema: pa.Schema, columns: Sequence[str], limits: Limits
) -> pa.Table:
    """Read columns of `parquet.seekable` Parquet, of this schema; raises `LimitExceeded`."""
    empty = schema.empty_table().select(columns)
    return pa.concat_tables(
        within(map(plain_columns, chain([empty], parquet_parts(content, columns))), limits)
    )


def arrow_table(content: IO[bytes], limits: Limits) -> pa.Table:
    """Read an Arrow stream or file, after a look at the sizes that its batches announce.

    Programs write both under the same names; a file begins with ARROW1. Raises `LimitExceeded`, or
    `BadInput` if it is damaged.
    """
    value = pa.py_buffer(whole(content, limits))
    is_stream = value[:6].to_pybytes() != b"ARROW1"
    with refusing(BadInput, "it is damaged, or has another format than its name says"):
        n_rows = size = 0
        for message in _messages(value, is_stream):
            if message.type != "schema":
                more_rows, more = announced(message, BadInput)
                n_rows, size = n_rows + more_rows, size + more
                _check_size(n_rows, size, limits)
        return (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(value).read_all()


def _messages(value: pa.Buffer, is_stream: bool) -> Iterator[pa.ipc.Message]:
    """Yield the messages of a stream, or those that the footer of a file names.

    The footer is a flatbuffer of Arrow's File.fbs, before its length, an int32, and ARROW1.
    Footer.dictionaries and .recordBatches are fields 2 and 3; a Block has 24 bytes, and begins with
    the offset of a message, an int64.
    """
    if is_stream:
        yield from pa.ipc.MessageReader.open_stream(value)
        return
    pa.ipc.open_file(value)  # raises if the footer is none
    end = len(value) - 10
    footer = memoryview(value)[end - int.from_bytes(value[end : end + 4], "little") : end]
    root = FlatTable(footer, int.from_bytes(footer[:4], "little"))
    for field in (8, 10):
        blocks = root.Offset(field)
        for index in range(root.VectorLen(blocks) if blocks else 0):
            at = root.Get(number_types.Int64Flags, root.Vector(blocks) + 24 * index)
            yield pa.ipc.read_message(value.slice(at))
