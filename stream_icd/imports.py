"""Imports on first use, and of optional libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module


def lazy_imports(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose names are imported on first use (PEP 562).

    `names` holds the public names that each module defines.
    """
    modules = {name: module for module, of_module in names.items() for name in of_module}

    def import_name(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return import_name


@contextmanager
def needs_extra(extra: str, *libraries: str) -> Iterator[None]:
    """Wrap imports of libraries that `pip install 'stream-icd[extra]'` installs.

    Raises `MissingExtra` if one is not installed; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in libraries:
            raise
        from stream_icd.errors import MissingExtra  # `import stream_icd` needs no other module

        raise MissingExtra(
            f"this needs {library}, which is not installed: pip install 'stream-icd[{extra}]'"
        ) from error
