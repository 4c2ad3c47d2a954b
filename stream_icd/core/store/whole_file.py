"""Write files atomically: a file is complete or absent, however the writer ends."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL
from pathlib import Path

from stream_icd.core.errors import StoreUnwritable

# Readers of datasets skip names that begin with `_`, and unknown file endings.
_ASIDE_PREFIX, _ASIDE_SUFFIX = "_", ".part"


@contextmanager
def writing(place: Path | str, advice: str = "") -> Iterator[None]:
    """Raise `StoreUnwritable`, which names the place, where the block raises `OSError`."""
    try:
        yield
    except OSError as error:
        raise StoreUnwritable(f"cannot write {place}: {error.strerror or error}{advice}") from error


def check_temporary_folder() -> None:
    """Raise `StoreUnwritable` if there is no folder for temporary files: tempfile finds none."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise StoreUnwritable(
            f"{error.strerror}: make room there, or set TMPDIR to a folder that can be written"
        ) from error


@contextmanager
def whole_file(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary file to write; when the block ends, rename it to `path`, durably.

    The file is written in the same folder, synchronised and renamed. If the block raises, the
    temporary file is removed, and an existing file at `path` is unchanged. Creates missing folders.
    Unless it is to `replace` an existing file, it gets its name by a hard link, and raises
    `FileExistsError` if the name is taken: of several writers at once, one succeeds. Raises
    `OSError`, such as for a full disk, or a folder or a device at `path`.
    """
    if path.exists() and not path.is_file():  # root would replace a device such as /dev/null
        raise OSError(EINVAL, "it is no regular file")
    make_folder(path.parent)
    aside = path.parent / f"{_ASIDE_PREFIX}{uuid.uuid4().hex}{_ASIDE_SUFFIX}"
    try:
        yield aside
        _synchronise(aside)  # before it has its name: a power cut leaves no half-written file
        if replace:
            aside.replace(path)
        else:
            path.hardlink_to(aside)
    finally:
        aside.unlink(missing_ok=True)
    _synchronise(path.parent)  # the name is in the folder, which has to reach the disk, too


def is_aside(path: str) -> bool:
    """Whether a file is temporary: left by a writer that was killed."""
    name = path.rpartition("/")[2]
    return name.startswith(_ASIDE_PREFIX) and name.endswith(_ASIDE_SUFFIX)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents durably, so that they survive a power cut."""
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
