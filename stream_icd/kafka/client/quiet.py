"""Silence the client's log during its first connection."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_CLIENT = logging.getLogger("kafka")
_lock = Lock()
_connecting: list[int] = []
"""The log level to restore, one entry for each connection in progress."""


@contextmanager
def quiet_while_connecting() -> Iterator[None]:
    """Silence the client's log in the block, unless the log level is DEBUG.

    The client logs four lines for each failed try; if all fail, one error reports the cause.
    """
    if _CLIENT.isEnabledFor(logging.DEBUG):
        yield
        return
    with _lock:
        _connecting.append(_connecting[0] if _connecting else _CLIENT.level)
        _CLIENT.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _lock:
            level = _connecting.pop()
            if not _connecting:
                _CLIENT.setLevel(level)
