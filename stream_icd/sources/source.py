"""What readers return: rows, then snapshots; and callbacks for input that they cannot use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_icd.core.arrays import Ids
from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadRow
from stream_icd.core.snapshot import Snapshot

OnBadRow = Callable[[BadRow], None]
"""Called with each row that cannot be read; it either notes the row or raises."""

OnIgnored = Callable[[str, str | Sequence[str]], None]
"""Called with what was guessed of a file, or is not used of it: the rest of a sentence that begins
with the file's name. The second argument stands for its `%s`, if it has one: a text, or names such
as those of columns, each of which is logged once."""

Count = Callable[[str, int], None]
"""Called with the kind of what was deliberately left out of snapshots, and how many."""


@dataclass(frozen=True, slots=True)
class Source:
    """Snapshots in the order of their windows, each with its known communities if there are any.

    Attributes:
        total: number of snapshots to come, if known in advance.
        snapshots: yields each once; reading is lazy.
    """

    total: int | None
    snapshots: Iterator[tuple[Snapshot, Labels | None]]


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Rows whose values are not yet checked."""

    origin: str  # the file's name, or the topic's
    place: Ids  # (n,) line, row or offset of each in its origin
    rows: pa.Table  # (n rows) the requested columns; text if the format has no types
    stream: int = 0  # number of their ordered stream, such as a topic's partition
    untyped: bool = False  # whether the format has no types, so that a number is text, too


def stop_at_bad_row(error: BadRow) -> None:
    """Read strictly: raise the first bad row."""
    raise error


def count_nothing(_what: str, _how_many: int) -> None:
    """Ignore counts, for callers that do not need them."""
