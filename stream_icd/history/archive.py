"""The archive: stores each message once, returns the same bytes, and merges the files of past days.

What reads raises `HistoryDamaged` if a file cannot be read, or is none of an archive.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
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
    KINDS,
    ArchivedDay,
    ArchivedWindow,
    Identity,
    Kind,
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

_MOST_ROWS = 5_000_000
"""Maximum rows of a merged file: about 20 to 60 MB."""

_MOST_BYTES = 2**28
"""Maximum bytes of these rows before compression, since a file is made in memory: the memory of a
large graph is a single row."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The windows to select: those that begin at `start` or later, and before `end`."""

    kind: Kind = "snapshots"
    graph: str | None = None
    model: str | None = None  # the version, of communities, events or memory
    start: datetime | None = None
    end: datetime | None = None
    revisions: Literal["newest", "all"] = "newest"  # of a corrected window

    def holds(self, noted: ArchivedWindow) -> bool:
        begins = noted.window.start
        return (
            self.model in (None, noted.identity.model)
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
    """Writes messages to a store; several archives may write to the same store at once."""

    store: Store
    # When the merged files of a day were looked into, in this order, and what they hold.
    _merged: dict[ArchivedDay, tuple[float, dict[Identity, Received]]] = field(default_factory=dict)

    def add(self, kind: Kind, message: Message, received: Received = (0, 0)) -> bool:
        """Store a message durably; return False if it was already stored.

        Each revision is kept once, with the latest time at which it was received: if it is sent
        again after another revision, it becomes the newest again.

        The message was decoded once, or made by an encoder of `wire`. Raises `BadInput` if a header
        is missing or the graph's name is too long; `StoreUnwritable`.
        """
        table = pa.ipc.open_stream(message.value).read_all()
        noted = ArchivedWindow.of(kind, message, table, received)
        path = f"{noted.partition.folder}/{noted.identity.file}"
        before = self._received(path, noted)
        if before is None or before < received:
            self.store.put(path, to_parquet([noted], [noted.rows_of(table)]))
        return before is None

    def _received(self, path: str, noted: ArchivedWindow) -> Received | None:
        """When the stored copy of this message was received; None if there is none."""
        times: list[Received] = []
        with suppress(FileNotFoundError):
            times += [window.received for window in read_footer(self.store, path)]
        merged = self._merged_in(noted.partition)
        if noted.identity in merged:
            times.append(merged[noted.identity])
        return max(times, default=None)

    def _merged_in(self, partition: ArchivedDay) -> dict[Identity, Received]:
        """When each message in the merged files of a day was received, as of the last minute."""
        now = time.monotonic()
        # The earliest look comes first.
        while self._merged and now - next(iter(self._merged.values()))[0] > _MERGED_CHECK_EVERY_S:
            del self._merged[next(iter(self._merged))]
        if partition not in self._merged:
            merged = read_partition(self.store, partition, of=is_compacted)
            self._merged[partition] = now, {noted.identity: noted.received for noted in merged}
        return self._merged[partition][1]


def partitions(store: Store, selection: Selection) -> list[ArchivedDay]:
    """Return the days that may hold selected windows, in time order."""
    kind, graph = selection.kind, selection.graph
    names = store.folders(kind) if graph is None else [ArchivedDay.folder_of(graph)]
    graphs = [f"{kind}/{name}" for name in names]
    days = (ArchivedDay.at(f"{graph}/{day}") for graph in graphs for day in store.folders(graph))
    return sorted(day for day in days if day is not None and selection.may_hold(day))


def windows(store: Store, selection: Selection) -> Iterator[ArchivedWindow]:
    """Yield the selected windows in time order, each identity once.

    A correction that moves a window to another day does not replace the older revision.
    """
    for _, of_day in groupby(partitions(store, selection), key=attrgetter("day")):
        archived = (noted for partition in of_day for noted in read_partition(store, partition))
        chosen = sorted(filter(selection.holds, archived), key=attrgetter("order"))
        yield from chosen if selection.revisions == "all" else newest(chosen)


def newest(archived: Iterable[ArchivedWindow]) -> list[ArchivedWindow]:
    """Return the newest revision of each window of one kind, in input order."""
    last: dict[tuple[str, str, str], ArchivedWindow] = {}
    for noted in archived:
        name = noted.partition.graph, *noted.identity.name
        if name not in last or last[name].received <= noted.received:
            last.pop(name, None)
            last[name] = noted
    return list(last.values())


def read_partition(
    store: Store, partition: ArchivedDay, of: Callable[[str], bool] = lambda _path: True
) -> list[ArchivedWindow]:
    """Return the windows of a day, each identity once, even while files are being merged.

    `of` chooses among its files.
    """
    footers: dict[str, list[ArchivedWindow]] = {}
    for _ in range(_ATTEMPTS):
        paths = sorted(filter(of, _data_files(store, partition)), key=is_compacted)
        for path in (path for path in paths if path not in footers):
            with suppress(FileNotFoundError):  # merged meanwhile: the next list has the new file
                footers[path] = read_footer(store, path)
        if footers.keys() >= set(paths):
            archived = chain.from_iterable(footers[path] for path in paths)
            in_order = sorted(archived, key=attrgetter("received"))
            return list({noted.identity: noted for noted in in_order}.values())
    raise HistoryDamaged(
        f"{store.place}/{partition.folder} kept changing while it was read: try again"
    )


def _data_files(store: Store, partition: ArchivedDay) -> list[str]:
    files = store.files(partition.folder)
    return [path for path in files if path.endswith(".parquet") and not is_aside(path)]


def read_window(store: Store, noted: ArchivedWindow) -> pa.Table:
    """Return the rows of a window, even if its file was merged into another one meanwhile."""
    for _ in range(_ATTEMPTS):
        try:
            return noted.read(store)
        except FileNotFoundError:
            moved = read_partition(store, noted.partition)
            noted = next((window for window in moved if window.identity == noted.identity), noted)
    if not store.folders():
        raise StoreUnreachable(f"{store.place} is empty now, as if its disk were unmounted")
    raise HistoryDamaged(f"{store.place}/{noted.path} no longer exists")


def read_message(store: Store, noted: ArchivedWindow) -> Message:
    """Return the archived message, with the same headers, table and bytes."""
    return noted.message(read_window(store, noted))


def read_snapshot(store: Store, noted: ArchivedWindow, limits: Limits = DEFAULT_LIMITS) -> Snapshot:
    """Return the archived snapshot; raises `BadSnapshot` if its message is none."""
    message = read_message(store, noted)
    return decode_snapshot(message.key, message.value, message.headers, limits)


def refuse_nothing(store: Store, selections: Iterable[Selection]) -> None:
    """Check that at least one of the selections, of different kinds, holds a window.

    Raises:
        SourceNotFound: there is no archive, or it is empty.
        BadSettings: the archive holds only other graphs, models or times.
    """
    chosen = list(selections)
    if all(next(windows(store, selection), None) is None for selection in chosen):
        archived = [selection for selection in chosen if selection.kind in store.folders()]
        raise nothing_selected(store, (archived or chosen)[0])


def nothing_selected(store: Store, selection: Selection) -> StreamIcdError:
    """Return the error for an empty selection; its message names what the archive holds."""
    if not store.is_there():
        return SourceNotFound(
            f"there is no archive at {store.place}: give a folder or URI that `stream-icd "
            "consume archive` writes to"
        )
    graphs = sorted({day.graph for day in partitions(store, Selection(selection.kind))})
    if graphs and selection.graph is not None and selection.graph not in graphs:
        return BadSettings(
            f"{store.place} holds no {selection.kind} of graph {selection.graph}; "
            f"it holds {listed(graphs)}{did_you_mean(selection.graph, graphs)}"
        )
    of_graph = list(windows(store, Selection(selection.kind, selection.graph)))
    if not of_graph:  # there may be folders, with unfinished files at most
        return SourceNotFound(
            f"{store.place} holds no archived {selection.kind}; to archive them: stream-icd "
            f"consume archive {store.place}"
        )
    models = sorted({noted.identity.model for noted in of_graph})
    if selection.model is not None and selection.model not in models:
        return BadSettings(
            f"{store.place} holds no {selection.kind} of model {selection.model}; it holds those "
            f"of {listed(models)}{did_you_mean(selection.model, models)}"
        )
    of_model = list(filter(replace(selection, start=None, end=None).holds, of_graph))
    start, end = selection.start or "the beginning", selection.end or "the end"
    first, last = of_model[0].window.start, of_model[-1].window.start
    return BadSettings(
        f"{store.place} holds no {selection.kind} with windows that start from {start} to "
        f"{end}; its windows start from {first} to {last}"
    )


@dataclass(frozen=True, slots=True)
class _Compaction:
    """What was, or would be, done to one day."""

    partition: ArchivedDay
    windows: int
    files_before: int
    files_after: int


def compact(
    store: Store,
    before: date,
    *,
    graph: str | None = None,
    dry_run: bool = False,
    today: date = date.max,
) -> Iterator[_Compaction]:
    """Merge the small files of each day before `before`; yield each day that needed it.

    The merged file is named by its windows and appears atomically; only then are the others
    deleted. After an interruption, the next run continues; until then, plain Parquet readers see
    the windows of that day twice. Readers in this library never do. Windows that arrive later are
    merged by the next run. Temporary files of `today` may still be in use, and stay.

    Raises:
        StoreUnwritable: such as a full disk; nothing is lost.
        HistoryDamaged: a file is not an archive file; its day is unchanged.
    """
    for kind in KINDS:
        for partition in partitions(store, Selection(kind, graph)):
            if partition.day < before:
                done = _compact_day(store, partition, dry_run=dry_run)
                if not dry_run:
                    _clean(store, partition, min(before, today))
                if done.files_after < done.files_before:
                    yield done


def _compact_day(store: Store, partition: ArchivedDay, *, dry_run: bool) -> _Compaction:
    files, windows = _data_files(store, partition), read_partition(store, partition)
    wanted = {}
    for part in _parts(sorted(windows, key=attrgetter("order"))):
        wanted[f"{partition.folder}/{ArchivedWindow.merged_file(part)}"] = part
    done = _Compaction(partition, len(newest(windows)), len(files), min(len(files), len(wanted)))
    if dry_run or len(wanted) >= len(files):
        return done
    for path, part in wanted.items():
        if path not in files:
            _merge(store, path, part)
    merged = {noted.identity: noted.received for noted in windows}
    for path in set(files) - set(wanted):
        if _holds_no_more(store, path, merged):
            store.delete(path)
    return done


def _holds_no_more(store: Store, path: str, merged: Mapping[Identity, Received]) -> bool:
    """Whether all of a file is in the merged one: a window may have been sent again meanwhile."""
    with suppress(FileNotFoundError):
        found = read_footer(store, path)
        return all(merged.get(noted.identity, (-1, -1)) >= noted.received for noted in found)
    return False


def _clean(store: Store, partition: ArchivedDay, before: date) -> None:
    """Delete temporary files of killed writers, but none that may still be in use."""
    for path in filter(is_aside, store.files(partition.folder)):
        if store.modified(path).date() < before:
            store.delete(path)


def _merge(store: Store, path: str, part: list[ArchivedWindow]) -> None:
    """Write the merged file, and check that it is complete before anything is deleted."""
    store.put(path, to_parquet(part, (read_window(store, noted) for noted in part)))
    merged = {(noted.identity, noted.rows) for noted in read_footer(store, path)}
    if merged != {(noted.identity, noted.rows) for noted in part}:
        raise HistoryDamaged(f"{store.place}/{path} does not contain what was written to it")


def _parts(windows: list[ArchivedWindow]) -> Iterator[list[ArchivedWindow]]:
    """Yield the windows of each merged file: one schema, up to `_MOST_ROWS` and `_MOST_BYTES`."""
    of_schema: dict[str, list[ArchivedWindow]] = defaultdict(list)
    for noted in windows:
        of_schema[noted.schema].append(noted)
    for alike in of_schema.values():
        part, n_rows, n_bytes = list[ArchivedWindow](), 0, 0
        for noted in alike:
            n_rows, n_bytes = n_rows + noted.rows, n_bytes + noted.n_bytes
            if part and (n_rows > _MOST_ROWS or n_bytes > _MOST_BYTES):
                yield part
                part, n_rows, n_bytes = [], noted.rows, noted.n_bytes
            part.append(noted)
        yield part
