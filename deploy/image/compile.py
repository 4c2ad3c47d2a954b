"""Import all that the programs of the image use: `python compile.py`.

Python keeps the compiled code of each module that is imported here, and of no other: all modules of
all libraries take 30 MB more. The script fails if a library lacks something, so it also checks what
`trim.sh` removes.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numba

PACKAGES = ("stream_icd", "producers", "consumers")


def files() -> Iterator[Path]:
    """Yield our source files, without those that run a program when they are imported."""
    for package in PACKAGES:
        (folder,) = importlib.import_module(package).__path__
        yield from (one for one in Path(folder).rglob("*.py") if one.name != "__main__.py")


def imports(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each module that is imported anywhere in a source, and the names from it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            node.handlers = []  # what is there if a library is of another version
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, [alias.name for alias in node.names]


def load(module: str, names: list[str]) -> None:
    """Import a module, and those of the names that are modules; not if an extra is missing."""
    try:
        loaded = importlib.import_module(module)
        for name in names:
            if not hasattr(loaded, name):
                importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        if importlib.util.find_spec(str(error.name).partition(".")[0]) is not None:
            raise


def main() -> None:
    for file in files():
        for module, names in imports(file.read_text(encoding="utf-8")):
            load(module, names)
    numba.njit(lambda x: x + 1)(1)  # numba imports a part of itself at the first call


if __name__ == "__main__":
    main()
