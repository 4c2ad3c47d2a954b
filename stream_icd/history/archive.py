"""The archive: stores each message once, and returns the same bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import attrgetter
from typing import Literal

import pyarrow as pa

from stream_icd.core.errors import (
    BadSettings,
    HistoryDamaged,
    SourceNotFound,
    StoreUnreachable,
    StreamIcdError,
)
from stream_icd.core.printable import did_you_mean, listed
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.core.store.whole_file import is_aside
from stream_icd.history.files import (
    ArchivedDay,
    ArchivedWindow,
    FileKind,
    Identity,
    Received,
    is_compacted,
    read_footer,
    to_parquet,
)
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot

_ATTEMPTS = 5
"""How often to list a day again because its files were merged during the read."""
_MERGED_CHECK_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Selection:
    """The windows to select: those that begin at `start` or later, and before `end`."""

    kind: FileKind = "snapshots"
    graph: str | None = None
    model: str | None = None  # the version, of communities, events or memory
    start: datetime | None = None
    end: datetime | None = None
    revisions: Literal["newest", "all"] = "newest"  # of a corrected window

    def holds(self, window: ArchivedWindow) -> bool:
        begins = window.window.start
        return (
            self.model in (None, window.identity.model)
            and (self.start is None or self.start <= begins)
            and (self.end is None or begins < self.end)
        )

    def may_hold(self, partition: ArchivedDay) -> bool:
        """Whether windows of that day can be selected."""
        day = partition.day
        return (
            self.graph in (None, partition.graph)
            and (self.start is None or self.start.astimezone(UTC).date() <= day)
            and (self.end is None or day <= self.end.astimezone(UTC).date())
        )


@dataclass(frozen=True, slots=True)
class Archive:
    """The messages in a store; several programs may write to the same store at once.

    What reads raises `HistoryDamaged` if a file cannot be read, or is none of an archive.
    """

    store: Store
    # When the merged files of a day were looked into, in this order, and what they hold.
    _merged: dict[ArchivedDay, tuple[float, dict[Identity, Received]]] = field(default_factory=dict)

    def add(self, kind: FileKind, message: Message, received: Received = (0, 0)) -> bool:
        """Store a message durably; return False if it was already stored.

        Each revision is kept once, with the latest time at which it was received: if it is sent
        again after another revision, it becomes the newest again.

        The message was decoded once, or made by an encoder of `wire`. Raises `BadInput` if a header
        is missing or the graph's name is too long; `StoreUnwritable`.
        """
        table = pa.ipc.open_stream(message.value).read_all()
        window = ArchivedWindow.of(kind, message, table, received)
        path = f"{window.partition.folder}/{window.identity.file}"
        before = self._received(path, window)
        # Written again if it was received later: that says which revision is the newest.
        if before is None or before < received:
            self.store.put(path, to_parquet([window], [window.rows_of(table)]))
        return before is None

    def _received(self, path: str, window: ArchivedWindow) -> Received | None:
        """When the stored copy of this message was received; None if there is none."""
        times: list[Received] = []
        with suppress(FileNotFoundError):
            times += [copy.received for copy in read_footer(self.store, path)]
        # After its own file: a merge deletes that only when the merged one is complete.
        merged = self._merged_in(window.partition)
        if window.identity in merged:
            times.append(merged[window.identity])
        return max(times, default=None)

    def _merged_in(self, partition: ArchivedDay) -> dict[Identity, Received]:
        """When each message in the merged files of a day was received, as of the last minute."""
        now = time.monotonic()
        # The earliest look comes first.
        while self._merged and now - next(iter(self._merged.values()))[0] > _MERGED_CHECK_EVERY_S:
            del self._merged[next(iter(self._merged))]
        if partition not in self._merged:
            merged = self.read_partition(partition, of=is_compacted)
            self._merged[partition] = now, {window.identity: window.received for window in merged}
        return self._merged[partition][1]

    def partitions(self, selection: Selection) -> list[ArchivedDay]:
        """Return the days that may hold selected windows, in time order."""
        kind, graph, folders = selection.kind, selection.graph, self.store.folders
        names = folders(kind) if graph is None else [ArchivedDay.folder_of(graph)]
        graphs = [f"{kind}/{name}" for name in names]
        days = (ArchivedDay.at(f"{graph}/{day}") for graph in graphs for day in folders(graph))
        return sorted(day for day in days if day is not None and selection.may_hold(day))

    def windows(self, selection: Selection = Selection()) -> Iterator[ArchivedWindow]:
        """Yield the selected windows in time order, each identity once.

        A correction that moves a window to another day does not replace the older revision.
        """
        for _, of_day in groupby(self.partitions(selection), key=attrgetter("day")):
            archived = chain.from_iterable(map(self.read_partition, of_day))
            chosen = sorted(filter(selection.holds, archived), key=attrgetter("order"))
            yield from chosen if selection.revisions == "all" else newest(chosen)

    def read_partition(
        self, partition: ArchivedDay, of: Callable[[str], bool] = lambda _path: True
    ) -> list[ArchivedWindow]:
        """Return the windows of a day, each identity once, even while files are being merged.

        `of` chooses among its files.
        """
        footers: dict[str, list[ArchivedWindow]] = {}
        for _ in range(_ATTEMPTS):
            # Merged files come last, so that they win below: the others will be deleted.
            paths = sorted(filter(of, self.files(partition)), key=is_compacted)
            for path in (path for path in paths if path not in footers):
                with suppress(FileNotFoundError):  # merged meanwhile: the next list has that
                    footers[path] = read_footer(self.store, path)
            if footers.keys() >= set(paths):
                archived = chain.from_iterable(footers[path] for path in paths)
                in_order = sorted(archived, key=attrgetter("received"))
                return list({window.identity: window for window in in_order}.values())
        raise HistoryDamaged(
            f"{self.store.place}/{partition.folder} kept changing while it was read: try again"
        )

    def files(self, partition: ArchivedDay) -> list[str]:
        """Return the paths of the complete files of a day."""
        paths = self.store.files(partition.folder)
        return [path for path in paths if path.endswith(".parquet") and not is_aside(path)]

    def read_window(self, window: ArchivedWindow) -> pa.Table:
        """Return the rows of a window, even if its file was merged into another one meanwhile."""
        for _ in range(_ATTEMPTS):
            try:
                return window.read(self.store)
            except FileNotFoundError:
                moved = self.read_partition(window.partition)
                same = (candidate for candidate in moved if candidate.identity == window.identity)
                window = next(same, window)
        place = self.store.place
        if not self.store.folders():
            raise StoreUnreachable(f"{place} is empty now, as if its disk were unmounted")
        raise HistoryDamaged(f"{place}/{window.path} no longer exists")

    def read_message(self, window: ArchivedWindow) -> Message:
        """Return the archived message, with the same headers, table and bytes."""
        return window.message(self.read_window(window))

    def read_snapshot(self, window: ArchivedWindow, limits: Limits = DEFAULT_LIMITS) -> Snapshot:
        """Return the archived snapshot; raises `BadSnapshot` if its message is none."""
        message = self.read_message(window)
        return decode_snapshot(message.key, message.value, message.headers, limits)

    def refuse_nothing(self, selections: Iterable[Selection]) -> None:
        """Check that at least one of the selections, of different kinds, holds a window.

        Raises:
            SourceNotFound: there is no archive, or it is empty.
            BadSettings: the archive holds only other graphs, models or times.
        """
        chosen = list(selections)
        if all(next(self.windows(selection), None) is None for selection in chosen):
            archived = [selection for selection in chosen if selection.kind in self.store.folders()]
            raise self.nothing_selected((archived or chosen)[0])

    def nothing_selected(self, selection: Selection) -> StreamIcdError:
        """Return the error for an empty selection; its message names what the archive holds."""
        place, kind = self.store.place, selection.kind
        if not self.store.is_there():
            return SourceNotFound(
                f"there is no archive at {place}: give a folder or URI that `stream-icd "
                "consume archive` writes to"
            )
        graphs = sorted({day.graph for day in self.partitions(Selection(kind))})
        if graphs and selection.graph is not None and selection.graph not in graphs:
            return BadSettings(
                f"{place} holds no {kind} of graph {selection.graph}; "
                f"it holds {listed(graphs)}{did_you_mean(selection.graph, graphs)}"
            )
        of_graph = list(self.windows(Selection(kind, selection.graph)))
        if not of_graph:  # there may be folders, with unfinished files at most
            return SourceNotFound(
                f"{place} holds no archived {kind}; to archive them: stream-icd "
                f"consume archive {place}"
            )
        models = sorted({window.identity.model for window in of_graph})
        if selection.model is not None and selection.model not in models:
            return BadSettings(
                f"{place} holds no {kind} of model {selection.model}; it holds those "
                f"of {listed(models)}{did_you_mean(selection.model, models)}"
            )
        of_model = list(filter(replace(selection, start=None, end=None).holds, of_graph))
        start, end = selection.start or "the beginning", selection.end or "the end"
        first, last = of_model[0].window.start, of_model[-1].window.start
        return BadSettings(
            f"{place} holds no {kind} with windows that start from {start} to "
            f"{end}; its windows start from {first} to {last}"
        )


def newest(archived: Iterable[ArchivedWindow]) -> list[ArchivedWindow]:
    """Return the newest revision of each window of one kind, in input order."""
    last: dict[tuple[str, str, str], ArchivedWindow] = {}
    for window in archived:
        name = window.partition.graph, *window.identity.name
        if name not in last or last[name].received <= window.received:
            # Taken out first: it gets its own place in the order, not that of the older revision.
            last.pop(name, None)
            last[name] = window
    return list(last.values())
