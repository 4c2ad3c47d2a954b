"""Read Parquet in parts: of a few kB, one text repeated can stand for any size."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_icd.core.errors import LimitExceeded
from stream_icd.core.node_ids import is_text
from stream_icd.core.snapshot import MOST_NODE_BYTES

_PART_ROWS, _PART_BYTES = 1 << 16, 64 << 20
_MOST_PACKED = 1 << 30
"""Bytes, uncompressed, of a compressed file around Parquet, which is read whole."""


def seekable(content: IO[bytes]) -> IO[bytes]:
    """Return a file of which Arrow can read the end first: a compressed one is read whole.

    Raises `LimitExceeded` if that is too large.
    """
    if content.seekable():
        return content
    value = content.read(_MOST_PACKED + 1)
    if len(value) > _MOST_PACKED:
        raise LimitExceeded(
            f"it has more than {_MOST_PACKED:,} bytes uncompressed: uncompress it (Parquet has a "
            "compression of its own)"
        )
    return io.BytesIO(value)


def parquet_schema(content: IO[bytes]) -> pa.Schema:
    """Return the columns of `seekable` Parquet."""
    return pq.ParquetFile(content).schema_arrow


def parquet_parts(content: IO[bytes], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield columns of `seekable` Parquet in parts of at most 65,536 rows, and of 64 MiB or a row.

    Categories stay categories (`plain_columns` writes them out).
    """
    plain = pq.ParquetFile(content)
    schema = plain.schema_arrow
    texts = [name for name in columns if is_text(schema.field(name).type)]
    categories = pq.ParquetFile(content, read_dictionary=texts, metadata=plain.metadata)
    for group in range(plain.num_row_groups):
        repeats_long_texts = _longest(categories, group, texts) > MOST_NODE_BYTES
        file = categories if repeats_long_texts else plain
        for batch in file.iter_batches(_PART_ROWS, row_groups=[group], columns=list(columns)):
            yield from _parts(pa.Table.from_batches([batch]).select(columns))


def _longest(categories: pq.ParquetFile, group: int, texts: Sequence[str]) -> int:
    """The bytes of the longest text that a group of rows can repeat: its first row has them all."""
    first = next(categories.iter_batches(1, row_groups=[group], columns=list(texts)), None)
    columns = [] if first is None else first.columns
    return max((int(_category_bytes(column).max(initial=0)) for column in columns), default=0)


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """Divide a table, so that the texts of its categories fit when they are written out."""
    sizes = np.zeros(len(table), np.int64)
    for column in table.columns:
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else []:
            sizes += _category_bytes(chunk)[chunk.indices.fill_null(0)] if len(chunk) else 0
    ends, first = sizes.cumsum(), 0
    while first < len(table):
        before = ends[first - 1] if first else 0
        end = max(first + 1, int(np.searchsorted(ends, before + _PART_BYTES, "right")))
        yield table.slice(first, end - first)
        first = end


def _category_bytes(column: pa.Array) -> NDArray[np.int64]:
    """The bytes of each category, or of the column's values if it is none of texts: 0."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not is_text(values.type) or not len(values):
        return np.zeros(max(len(values), 1), np.int64)
    sizes: NDArray[np.int64] = (
        pc.binary_length(values.cast(pa.large_string())).fill_null(0).to_numpy()
    )
    return sizes
