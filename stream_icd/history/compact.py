"""Merge the small files of past days: the same windows in fewer files.

The merged file is named by its windows and appears atomically; only then are the others deleted.
After an interruption, the next run continues; until then, plain Parquet readers see the windows of
that day twice. Readers in this library never do.
"""

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
from stream_icd.history.archive import (
    Selection,
    data_files,
    newest,
    partitions,
    read_partition,
    read_window,
)
from stream_icd.history.files import (
    KINDS,
    ArchivedDay,
    ArchivedWindow,
    Identity,
    Received,
    compacted_file,
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
    """Merge the files of each day before `before`; yield each day that needed it.

    Windows that arrive later are merged by the next run. Temporary files of `today` may still be in
    use, and stay.

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
    files, windows = data_files(store, partition), read_partition(store, partition)
    wanted = {}
    for part in _parts(sorted(windows, key=attrgetter("order"))):
        name = compacted_file((noted.identity, noted.received) for noted in part)
        wanted[f"{partition.folder}/{name}"] = part
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
