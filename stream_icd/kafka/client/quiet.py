"""Silence of the client's log while it connects for the first time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_CLIENT = logging.getLogger("kafka")
_lock = Lock()
_connecting: list[int] = []
"""The level to return to, once for each of those that connect now."""


@contextmanager
def quiet_while_connecting() -> Iterator[None]:
    """Keep the client from logging in the block, unless it is asked for at level DEBUG.

    Each failed try is four lines of its log; when none succeeds, one error says all of it.
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
