"""The content of a file: uncompressed, and no more of it than fits the memory.

Of a few kB, a file can stand for any size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TypeVar
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flatbuffers import number_types
from flatbuffers.table import Table as FlatTable
from numpy.typing import NDArray

from stream_icd.core.errors import BadInput, BadSettings, LimitExceeded
from stream_icd.core.node_ids import is_text, plain_columns
from stream_icd.core.printable import listed
from stream_icd.core.snapshot import MOST_NODE_BYTES
from stream_icd.sources.source import RawRows
from stream_icd.wire.arrow_stream import announced
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import refusing

DAMAGED = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, tarfile.TarError),
    UnicodeDecodeError,  # of the names of columns
)
"""Exceptions that reading a damaged file can raise."""

_PART_ROWS, _PART_BYTES = 1 << 16, 64 << 20
_MOST_PACKED = 1 << 30
"""Bytes, uncompressed, of a compressed file around Parquet, which is read whole."""

_Batch = TypeVar("_Batch", RawRows, pa.Table)


def _only_member(packed: IO[bytes]) -> IO[bytes]:
    """Open the only file in a ZIP archive; `BadSettings`: it has several, none, or a password."""
    archive = ZipFile(packed)
    copies = ("__MACOSX/", ".")  # what macOS adds
    files = [one for one in archive.namelist() if not one.endswith("/")]
    files = [one for one in files if not one.startswith(copies)] or files
    if len(files) != 1:
        raise BadSettings(
            f"the ZIP archive holds {len(files)} files ({listed(files)}): put one file in each"
        )
    try:
        return archive.open(files[0])
    except (RuntimeError, NotImplementedError) as error:  # a password; an unknown compression
        raise BadSettings(f"the ZIP archive cannot be read: {error}") from error


def _arrow(codec: str) -> Callable[[IO[bytes]], IO[bytes]]:
    return lambda packed: io.BufferedReader(pa.CompressedInputStream(packed, codec))


OPENERS: Mapping[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": lambda packed: io.BufferedReader(gzip.GzipFile(fileobj=packed)),
    ".bz2": lambda packed: io.BufferedReader(bz2.BZ2File(packed)),
    ".xz": lambda packed: io.BufferedReader(lzma.LZMAFile(packed)),  # noqa: SIM115 - the caller closes it
    ".zst": _arrow("zstd"),
    ".lz4": _arrow("lz4"),
    ".zip": _only_member,
}


def uncompressed(file: IO[bytes], name: str) -> IO[bytes]:
    """Return the content of a file, decompressed if its name ends like one of `OPENERS`.

    Raises `BadSettings` if a ZIP archive does not hold exactly one file; one of `DAMAGED`, now or
    while it is read, if the file is damaged.
    """
    opens = OPENERS.get(Path(name.lower()).suffix)
    return file if opens is None else opens(file)


def form_of(name: str) -> str:
    """Return the ending of a file's name in lower case, without that of the compression.

    >>> form_of("2026-01-31.CSV.zst"), form_of("2026-01-31.gz")
    ('.csv', '')
    """
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in OPENERS else path.suffix


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


class Parquet:
    """A Parquet file, of which Arrow reads the end first: a compressed one is read whole.

    Raises `LimitExceeded` if that is too large.
    """

    def __init__(self, content: IO[bytes]) -> None:
        if not content.seekable():
            value = content.read(_MOST_PACKED + 1)
            if len(value) > _MOST_PACKED:
                raise LimitExceeded(
                    f"it has more than {_MOST_PACKED:,} bytes uncompressed: uncompress it (Parquet "
                    "has a compression of its own)"
                )
            content = io.BytesIO(value)
        self._content, self._file = content, pq.ParquetFile(content)
        self.schema: pa.Schema = self._file.schema_arrow

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns in parts of at most 65,536 rows, and of 64 MiB or a row.

        Categories stay categories (`plain_columns` writes them out).
        """
        texts = [name for name in columns if is_text(self.schema.field(name).type)]
        categories = pq.ParquetFile(
            self._content, read_dictionary=texts, metadata=self._file.metadata
        )
        for group in range(self._file.num_row_groups):
            repeats_long_texts = _longest(categories, group, texts) > MOST_NODE_BYTES
            file = categories if repeats_long_texts else self._file
            for batch in file.iter_batches(_PART_ROWS, row_groups=[group], columns=list(columns)):
                yield from _parts(pa.Table.from_batches([batch]).select(columns))

    def table(self, columns: Sequence[str], limits: Limits) -> pa.Table:
        """Return columns; raises `LimitExceeded`."""
        empty = self.schema.empty_table().select(columns)
        parts = chain([empty], self.parts(columns))
        return pa.concat_tables(within(map(plain_columns, parts), limits))


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
