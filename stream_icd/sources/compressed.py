"""Files that may be compressed: their names say how."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zlib
from typing import IO

ENDINGS = (".gz", ".bz2")
DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError)
"""What reading a damaged file may raise."""


def uncompressed(file: IO[bytes], name: str) -> IO[bytes]:
    """The content of a file of that name: `.gz` and `.bz2` unpacked, anything else as it is."""
    if name.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if name.endswith(".bz2"):
        return io.BufferedReader(bz2.BZ2File(file))
    return file


def bare_name(name: str) -> str:
    """The name without the ending that only says how it is compressed."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
