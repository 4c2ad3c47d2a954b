"""What every reader returns, and what becomes of what it cannot use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from stream_icd.communities import Labels
from stream_icd.errors import BadRow
from stream_icd.snapshot import Snapshot

OnBadRow = Callable[[BadRow], None]
"""Called with each row that cannot be read; it either notes the row or raises."""

Count = Callable[[str, int], None]
"""Called with what was left out of the snapshots for a good reason, and how many of it."""


@dataclass(frozen=True, slots=True)
class Source:
    """Snapshots in the order of their windows, each with its known communities if there are any.

    Attributes:
        total: how many snapshots will come, where that is known beforehand.
        snapshots: yields each once; reading is lazy.
    """

    total: int | None
    snapshots: Iterator[tuple[Snapshot, Labels | None]]


class Stop(Protocol):
    """Somebody may ask a reader to stop, such as through a `threading.Event`."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class NeverStop:
    """Nobody asks; only for readers that end by themselves."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        raise NotImplementedError(f"waiting {timeout} s without a way to stop")


def stop_at_bad_row(error: BadRow) -> None:
    """Strict reading: the first bad row ends it.

    Raises:
        BadRow: always, the given one.
    """
    raise error


def count_nothing(_what: str, _how_many: int) -> None:
    """For callers who do not ask what was left out."""
