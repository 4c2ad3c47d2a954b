"""Imports on first use, and of optional libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module


def lazy_imports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports names on first use.

    A name is what `from module import name` gives: an attribute of the module, or a module in it.
    `dir` has all of them, so that notebooks complete what is not imported yet.
    """
    modules = {name: module for module, of_module in names.items() for name in of_module}

    def import_name(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(modules[name])
        return (
            getattr(home, name) if hasattr(home, name) else import_module(f"{modules[name]}.{name}")
        )

    return import_name, lambda: sorted({*vars(sys.modules[package]), *modules})


@contextmanager
def needs_extra(extra: str, *libraries: str) -> Iterator[None]:
    """Wrap imports of libraries of an extra; raise `MissingExtra`, which says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in libraries:
            raise
        from stream_icd.core.errors import MissingExtra  # `import stream_icd` needs no other module

        raise MissingExtra(
            f"this needs {library}, which is not installed: pip install 'stream-icd[{extra}]'"
        ) from error


class _NoPandas:
    def find_spec(self, name: str, _path: object, _target: object = None, /) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not needed here", name=name)


def without_pandas() -> None:
    """Let pyarrow look for pandas now, and find none; it looks once. Other code may import it.

    Else pyarrow imports it: an eighth of the time in which a worker process starts, and 30 MB.
    """
    global _is_hidden
    _is_hidden = True
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import_module("pyarrow").array([0])  # at the first conversion, it looks
    finally:
        sys.meta_path.remove(finder)


_is_hidden = False  # from pyarrow, see `without_pandas`


def with_pandas() -> None:
    """Import pandas before pyarrow does, if it is installed, unless `without_pandas` was called.

    While pyarrow imports it, Ctrl-C has no effect, and a program whose thread waits there aborts
    when it ends.
    """
    if not _is_hidden:
        with suppress(Exception):  # not installed, or not as it should be: pyarrow does without
            import_module("pandas")
