"""Read files that may be compressed, as their names tell."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zlib
from typing import IO

ENDINGS = (".gz", ".bz2")
DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError)
"""Exceptions that reading a damaged file can raise."""


def uncompressed(file: IO[bytes], name: str) -> IO[bytes]:
    """Return the content of a file: `.gz` and `.bz2` decompressed, other names unchanged."""
    if name.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if name.endswith(".bz2"):
        return io.BufferedReader(bz2.BZ2File(file))
    return file


def bare_name(name: str) -> str:
    """Return the name without its compression ending."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
