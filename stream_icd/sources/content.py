"""The content of a file: uncompressed, and Parquet in parts that fit the memory.

Of a few kB, a file can stand for any size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings, LimitExceeded
from stream_icd.core.node_ids import is_text
from stream_icd.core.printable import listed
from stream_icd.core.snapshot import MOST_NODE_BYTES

DAMAGED = (
    *(OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile, tarfile.TarError),
    UnicodeDecodeError,  # of the names of columns
)
"""Exceptions that reading a damaged file can raise."""

_PART_ROWS, _PART_BYTES = 1 << 16, 64 << 20
_MOST_PACKED = 1 << 30
"""Bytes, uncompressed, of a compressed file around Parquet, which is read whole."""


def _only_member(packed: IO[bytes]) -> IO[bytes]:
    """Open the only file in a ZIP archive; `BadSettings`: it has several, none, or a password."""
    archive = ZipFile(packed)
    copies = ("__MACOSX/", ".")  # what macOS adds
    files = [name for name in archive.namelist() if not name.endswith("/")]
    files = [name for name in files if not name.startswith(copies)] or files
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

        Categories stay categories (`node_ids.plain_columns` writes them out).
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
