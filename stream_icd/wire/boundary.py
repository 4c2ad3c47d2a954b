"""The boundary of every decoder: whatever a message from outside makes it raise is bad input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_icd.errors import BadInput

MOST_REASON = 300
"""Characters of another library's error that are quoted: it may repeat what came, at any length."""


@contextmanager
def refusing(error: type[BadInput], what: str) -> Iterator[None]:
    """Raise whatever the block raises as `error`: the message is at fault, and can never succeed.

    Lack of memory is the exception: it says nothing about the message, so it passes as the
    `MemoryError` that it is (Arrow's is one, too), and the message can be tried again.

    Args:
        what: begins the text of the error, such as "not an Arrow IPC stream".
    """
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except Exception as cause:
        reason = f"{type(cause).__name__}: {cause}"
        raise error(f"{what}: {reason:.{MOST_REASON}}") from cause
