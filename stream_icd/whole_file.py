"""Files that are there whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Readers of datasets pass over names that begin with `_`, and over other endings.
ASIDE_PREFIX, ASIDE_SUFFIX = "_", ".part"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write in the block; when the block ends it has the name `path`, and lasts.

    It is written aside in the same folder, synchronised and renamed. When the block raises, nothing
    is left, and a file that has the name already stays as it is. Folders are made.

    Raises:
        OSError: such as a full disk; nothing is left.
    """
    make_folder(path.parent)
    aside = path.with_name(f"{ASIDE_PREFIX}{uuid.uuid4().hex}{ASIDE_SUFFIX}")
    try:
        yield aside
        _synchronise(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    _synchronise(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they outlast a power cut."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _synchronise(folder.parent)


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
