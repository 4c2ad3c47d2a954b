"""Files that are compressed as a whole, by the endings of their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import pyarrow as pa

from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import listed

TORN = (OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile)
"""Exceptions that reading a damaged compressed file can raise."""


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

    Raises `BadSettings` if a ZIP archive does not hold exactly one file, and one of `TORN`, now or
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
