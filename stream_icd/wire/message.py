"""A message of the wire contract, and the error boundary of all that decode one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stream_icd.errors import BadInput

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message: `key` names the graph (UTF-8), `value` holds the bytes."""

    key: bytes
    value: bytes
    headers: Headers


MOST_REASON = 300
"""Maximum characters quoted from another library's error, which may repeat the whole input."""


@contextmanager
def refusing(error: type[BadInput], what: str) -> Iterator[None]:
    """Convert any exception of the block to `error`: the message is bad and can never succeed.

    `MemoryError` (Arrow's included) is not converted: it says nothing about the message, which can
    be tried again.

    Args:
        what: start of the error message, such as "not an Arrow IPC stream".
    """
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except Exception as cause:
        reason = f"{type(cause).__name__}: {cause}"
        raise error(f"{what}: {reason:.{MOST_REASON}}") from cause
