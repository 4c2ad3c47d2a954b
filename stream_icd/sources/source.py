"""What every reader returns, and what becomes of a row that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stream_icd.communities import Labels
from stream_icd.errors import BadRow
from stream_icd.snapshot import Snapshot

OnBadRow = Callable[[BadRow], None]
"""Called with each row that cannot be read; it either notes the row or raises."""


@dataclass(frozen=True, slots=True)
class Source:
    """Snapshots in the order of their windows, each with its known communities if there are any.

    Attributes:
        total: how many snapshots will come, where that is known beforehand.
        snapshots: yields each once; reading is lazy.
    """

    total: int | None
    snapshots: Iterator[tuple[Snapshot, Labels | None]]


def stop_at_bad_row(error: BadRow) -> None:
    """Strict reading: the first bad row ends it.

    Raises:
        BadRow: always, the given one.
    """
    raise error
