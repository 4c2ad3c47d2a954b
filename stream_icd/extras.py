"""Optional dependencies: what to install when one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_icd.errors import MissingExtra


@contextmanager
def needs_extra(extra: str, *libraries: str) -> Iterator[None]:
    """Wrap imports of libraries that `pip install 'stream-icd[extra]'` installs.

    Raises:
        MissingExtra: one is not installed; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in libraries:
            raise
        raise MissingExtra(
            f"this needs {library}, which is not installed: pip install 'stream-icd[{extra}]'"
        ) from error
