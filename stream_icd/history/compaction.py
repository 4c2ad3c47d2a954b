"""Merges the small files of past days; no message is lost or doubled, whenever it is killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from operator import attrgetter

from stream_icd.core.errors import HistoryDamaged
from stream_icd.core.store.store import Store
from stream_icd.core.store.whole_file import is_aside
from stream_icd.history.archive import Archive, Selection, newest
from stream_icd.history.files import (
    FILE_KINDS,
    ArchivedDay,
    ArchivedWindow,
    Identity,
    Received,
    read_footer,
    to_parquet,
)

_MOST_ROWS = 5_000_000
"""Maximum rows of a merged file: about 20 to 60 MB."""

_MOST_BYTES = 2**28
"""Maximum bytes of these rows before compression, since a file is made in memory: the memory of a
large graph is a single row."""


@dataclass(frozen=True, slots=True)
class _Compaction:
    partition: ArchivedDay
    windows: int
    files_before: int
    files_after: int


def compact_archive(
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
    archive = Archive(store)
    for kind in FILE_KINDS:
        for partition in archive.partitions(Selection(kind, graph)):
            if partition.day < before:
                done = _compact_day(archive, partition, dry_run=dry_run)
                if not dry_run:
                    _clean(store, partition, min(before, today))
                if done.files_after < done.files_before:
                    yield done


def _compact_day(archive: Archive, partition: ArchivedDay, *, dry_run: bool) -> _Compaction:
    # Listed before they are read, so that a file that comes in between is not deleted.
    files, windows = archive.files(partition), archive.read_partition(partition)
    parts = {
        f"{partition.folder}/{ArchivedWindow.merged_file(part)}": part
        for part in _parts(sorted(windows, key=attrgetter("order")))
    }
    done = _Compaction(partition, len(newest(windows)), len(files), min(len(files), len(parts)))
    if dry_run or len(parts) >= len(files):
        return done
    for path, part in parts.items():
        if path not in files:
            _merge(archive, path, part)
    # Only now, when all merged files are complete: until then, windows are there twice, never not.
    merged = {window.identity: window.received for window in windows}
    for path in set(files) - set(parts):
        if _holds_no_more(archive.store, path, merged):
            archive.store.delete(path)
    return done


def _holds_no_more(store: Store, path: str, merged: Mapping[Identity, Received]) -> bool:
    # A window may have been sent again meanwhile: then its file is newer than the merged one.
    with suppress(FileNotFoundError):
        windows = read_footer(store, path)
        return all(merged.get(window.identity, (-1, -1)) >= window.received for window in windows)
    return False


def _clean(store: Store, partition: ArchivedDay, before: date) -> None:
    """Delete temporary files of killed writers, but none that may still be in use."""
    for path in filter(is_aside, store.files(partition.folder)):
        if store.modified(path).date() < before:
            store.delete(path)


def _merge(archive: Archive, path: str, part: list[ArchivedWindow]) -> None:
    """Write the merged file, and check that it is complete before anything is deleted."""
    store = archive.store
    store.put(path, to_parquet(part, map(archive.read_window, part)))
    merged = {(window.identity, window.rows) for window in read_footer(store, path)}
    if merged != {(window.identity, window.rows) for window in part}:
        raise HistoryDamaged(f"{store.place}/{path} does not contain what was written to it")


def _parts(windows: list[ArchivedWindow]) -> Iterator[list[ArchivedWindow]]:
    """Yield the windows of each merged file: one schema, up to `_MOST_ROWS` and `_MOST_BYTES`."""
    of_schema: dict[str, list[ArchivedWindow]] = defaultdict(list)
    for window in windows:
        of_schema[window.schema].append(window)
    for alike in of_schema.values():
        part, n_rows, n_bytes = list[ArchivedWindow](), 0, 0
        for window in alike:
            n_rows, n_bytes = n_rows + window.rows, n_bytes + window.n_bytes
            if part and (n_rows > _MOST_ROWS or n_bytes > _MOST_BYTES):
                yield part
                part, n_rows, n_bytes = [], window.rows, window.n_bytes
            part.append(window)
        yield part
