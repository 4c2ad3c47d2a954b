"""What the archive holds to learn from: the newest windows, and the labels of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice

from stream_icd.history.archive import Selection, newest, partitions, read_partition
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.store.store import Store

MOST_WINDOWS = 1000
"""Default number of windows to look at: it bounds time and memory, however long the archive is."""


@dataclass(frozen=True, slots=True)
class Accumulated:
    """Archived windows and labels, by their descriptions; no rows are read.

    Attributes:
        windows: the newest windows, in time order.
        labels: labels by graph and snapshot id, for those windows that have some.
        strayed: labels for windows in the same days that the archive does not have; they are kept
            in the archive and not used.
    """

    windows: tuple[ArchivedWindow, ...]
    labels: dict[tuple[str, str], ArchivedWindow]
    strayed: int

    def until(self, end: datetime) -> Accumulated:
        """What there was when the newest window ended at `end`; labels may be newer."""
        return replace(self, windows=tuple(one for one in self.windows if one.window.end <= end))

    def labels_of(self, window: ArchivedWindow) -> ArchivedWindow | None:
        """The labels of a window, or None."""
        return self.labels.get(_name(window))


def accumulated(store: Store, graph: str | None = None, most: int = MOST_WINDOWS) -> Accumulated:
    """Look up the newest windows of the archive, and their labels, however late these came.

    Args:
        graph: only this graph; None for all.
        most: maximum number of windows.

    Raises:
        HistoryDamaged: a file is not an archive file.
        StoreUnreachable: the store does not answer.
    """
    found = list(islice(_newest_first(store, Selection("snapshots", graph)), most))[::-1]
    if not found:
        return Accumulated((), {}, 0)
    earliest = replace(Selection("labels", graph), start=min(one.window.start for one in found))
    of_windows = {_name(one): one for one in _newest_first(store, earliest)}
    known = {_name(one) for one in found}
    labels = {name: one for name, one in of_windows.items() if name in known}
    return Accumulated(tuple(found), labels, len(of_windows) - len(labels))


def _newest_first(store: Store, selection: Selection) -> Iterator[ArchivedWindow]:
    """Yield windows from the newest to the oldest, and read only the days that are asked for."""
    days = sorted(partitions(store, selection), reverse=True)
    for _, of_day in groupby(days, key=lambda partition: partition.day):
        read = (noted for partition in of_day for noted in read_partition(store, partition))
        chosen = sorted(filter(selection.holds, read), key=lambda noted: noted.order)
        yield from reversed(newest(chosen))


def _name(noted: ArchivedWindow) -> tuple[str, str]:
    return noted.partition.graph, noted.identity.snapshot_id
