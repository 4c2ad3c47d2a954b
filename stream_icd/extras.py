"""Optional dependencies: what to install when one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_icd.errors import MissingExtra


@contextmanager
def needs_extra(extra: str, library: str) -> Iterator[None]:
    """Wrap imports that need `library`, which `pip install 'stream-icd[extra]'` installs.

    Raises:
        MissingExtra: it is not installed; the message says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != library:
            raise
        raise MissingExtra(
            f"this needs {library}, which is not installed: pip install 'stream-icd[{extra}]'"
        ) from error
