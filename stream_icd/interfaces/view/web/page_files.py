"""The files of the page, read once: a request never touches the disk."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class _PageFile:
    """A file as it is served: its bytes, these with gzip, its media type and its `ETag`."""

    content: bytes
    compressed: bytes
    kind: str
    tag: str


@cache
def page_files() -> dict[str, _PageFile]:
    """Return all files of the page by path; `index.html` also as the empty path."""
    by_path = dict(_below(files("stream_icd.interfaces.view") / "page", ""))
    return {**by_path, "": by_path["index.html"]}


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, _PageFile]]:
    for path in folder.iterdir():
        name = f"{prefix}{path.name}"
        if path.is_dir():
            yield from _below(path, f"{name}/")
        elif (suffix := f".{name.rpartition('.')[2]}") in _TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            yield name, _PageFile(content, gzip.compress(content, 6, mtime=0), _TYPES[suffix], tag)
