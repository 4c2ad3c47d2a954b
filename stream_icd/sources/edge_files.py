"""A folder of edge lists, one snapshot per file; can be watched for new files."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event

from stream_icd.core.errors import (
    BadInput,
    BadRow,
    BadSettings,
    NoGoodRows,
    SourceNotFound,
    StoreUnreachable,
)
from stream_icd.core.printable import listed, printable
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import WindowOf, time_at, windows_at
from stream_icd.sources.content import OPENERS, form_of
from stream_icd.sources.edge_list import FORMS, read_edge_list
from stream_icd.sources.source import Count, OnBadRow, Source, count_nothing, stop_at_bad_row
from stream_icd.sources.values import IdKind, KindBefore
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

_LOG = logging.getLogger(__name__)
_PICKLES = (".pickle", ".pkl", ".gpickle", ".p")
_UNFINISHED = (".tmp", ".part")
_KNOWN = f"Files are read that are named {', '.join(FORMS)}, also compressed ({', '.join(OPENERS)})"
_DATE = re.compile(
    r"(?<!\d)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})"
    r"(?:[T_ -]?(\d{2})[:h-]?(\d{2})(?:[:m-]?(\d{2}))?)?(?!\d)"
)

_Stamps = Mapping[Path, tuple[int, int, int]]
"""When each file was changed, in nanoseconds since 1970, its size, and when its status was changed,
such as the permission to read it."""


def watch_edge_files(
    folder: Path,
    *,
    graph: str = "files",
    id_kind: IdKind = "auto",
    kind_before: KindBefore = lambda: "auto",
    every_s: float | None = None,
    window: WindowOf | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_bad_row: OnBadRow = stop_at_bad_row,
    count: Count = count_nothing,
    stop: Event = Event(),
) -> Source:
    """Read a snapshot from each file, in the order of their windows; its id is `graph/file name`.

    Names that begin with a dot are ignored; other files that are not read are logged, and counted
    as `other_files`. Files ending in `.tmp` or `.part`, which are still being written, are neither
    if the folder is watched: with `every_s`, new and changed files are read once they are unchanged
    between two looks. Files that cannot be read, or are above the `limits`, are bad rows, too;
    `empty_files` are counted. With `auto`, ids keep the kind of those of the snapshot before.

    Raises `SourceNotFound` if the folder does not exist, is an archive, or has no file to send and
    is not watched; `StoreUnreachable` if it cannot be read, or vanishes; `BadSettings` if it is no
    folder, or `every_s` is not positive.
    """
    if not folder.exists():
        raise SourceNotFound(f"nothing at {folder}: create the folder and put edge lists there")
    if not folder.is_dir():
        raise BadSettings(f"{folder} is not a folder: give the folder that contains the file")
    if every_s is not None and every_s <= 0:
        raise BadSettings(f"every {every_s:g} s: the interval must be above 0")
    reading = _Reading(graph, id_kind, kind_before, window, limits, on_bad_row, count)
    if every_s is not None:
        return Source(None, _watch(folder, reading, every_s, stop))
    files = _files(folder, reading, unfinished=True)
    if not files and is_archive(folder):
        raise SourceNotFound(
            f"{folder} is an archive: send it with `stream-icd produce replay {folder}`, or learn "
            f"from it with --data archive:path={folder}"
        )
    if not files:
        raise SourceNotFound(f"{folder} holds no edge list: {_KNOWN}")
    return Source(len(files), _read_all(files, files, reading))


def is_archive(folder: Path) -> bool:
    """Whether a folder is one that `consume archive` writes to."""
    return (folder / "snapshots").is_dir()


@dataclass(slots=True)
class _Reading:
    graph: str
    id_kind: IdKind
    kind_before: KindBefore
    window: WindowOf | None
    limits: Limits
    on_bad_row: OnBadRow
    count: Count
    warned: set[tuple[str, str]] = field(default_factory=set)
    naming: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)

    def say_left_out(self, names: Sequence[str]) -> None:
        """Log and count files of a folder that are not read, each once."""
        if new := [name for name in names if name not in self.left_out]:
            self.left_out.update(new)
            self.count("other_files", len(new))
            _LOG.warning("not sent: %s. %s", listed(new), _KNOWN)

    def warn_once(self, file: str, text: str, shown: str | Sequence[str] = ()) -> None:
        """Log a warning that begins with the name of a file, for the first such file only.

        If `shown` has names, such as those of columns: for the first file with each of them.
        """
        names = () if isinstance(shown, str) else shown
        warnings = {(text, name) for name in names} or {(text, "")}
        if new := warnings - self.warned:
            self.warned.update(new)
            arguments = [printable(shown)] if isinstance(shown, str) else []
            if names:
                arguments = [listed([name for name in names if (text, name) in new])]
            _LOG.warning(
                f"%s {text} (this is logged of one file only)", printable(file), *arguments
            )

    def settle(self, file: str, attribute: str | None) -> str | None:
        """Return what names the nodes of all GraphML files: the first that is found in one."""
        if attribute is not None and not self.naming:
            self.naming.append(attribute)
            if attribute:
                _LOG.info(
                    "%s: the attribute %s names the nodes, in GraphML files after it, too",
                    printable(file),
                    printable(attribute),
                )
        return self.naming[0] if self.naming else None


def _watch(
    folder: Path, reading: _Reading, every_s: float, stop: Event
) -> Iterator[tuple[Snapshot, None]]:
    before: _Stamps = {}
    done: _Stamps = {}
    while not stop.is_set():
        now = _files(folder, reading, unfinished=False)
        # Unchanged since the last look: nobody is writing it any more.
        ready = [f for f, stamp in now.items() if before.get(f) == stamp != done.get(f)]
        # By stamps from before reading: if a file changes meanwhile, it is read again.
        done = {**done, **{file: now[file] for file in ready}}
        yield from _read_all(ready, now, reading)
        before = now
        stop.wait(every_s)


def _files(folder: Path, reading: _Reading, *, unfinished: bool) -> _Stamps:
    """Return the files to read; say which others there are, also `unfinished` ones if asked to."""
    stamps, left_out = {}, list[str]()
    try:
        present = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    except OSError as error:  # such as a disk that is no longer mounted
        raise StoreUnreachable(f"cannot read the folder {folder}: {error.strerror}") from error
    for file in present:
        if file.name.endswith(_UNFINISHED):
            left_out += [file.name] * unfinished
        elif form_of(file.name) in (*FORMS, *_PICKLES):
            with suppress(FileNotFoundError):  # deleted since the listing
                stat = _stat(file)
                stamps[file] = stat.st_mtime_ns, stat.st_size, stat.st_ctime_ns
        else:
            left_out.append(f"{file.name}/" if file.is_dir() else file.name)
    reading.say_left_out(left_out)
    return stamps


def _stat(file: Path) -> os.stat_result:
    """Return the status of a file, or of a link without its file; asks once as a rule."""
    try:
        return file.stat()
    except OSError:
        if file.exists():
            raise
        return file.lstat()


def _read_all(
    files: Collection[Path], folder: _Stamps, reading: _Reading
) -> Iterator[tuple[Snapshot, None]]:
    changed = {file.name: modified_ns for file, (modified_ns, *_) in folder.items()}
    windows = _windows_of(changed, reading.window)
    ends = {file: windows[file.name].end for file in files}
    for undated in (file.name for file in files if _time_in(file.name) is None):
        reading.warn_once(
            undated,
            "has no day such as 2026-01-31 in its name: its window is the moment when it was last "
            "changed",
        )
    if n_shared := len(ends) - len(set(ends.values())):
        _LOG.warning(
            "%d files share a window, and are late for a tracker: name their times", n_shared
        )
    for file in sorted(files, key=ends.__getitem__):
        try:
            yield _snapshot(file, windows[file.name], reading), None
        except BadRow:  # strict reading stops at a bad row
            raise
        except NoGoodRows:  # such as the mails of a day without any
            _LOG.warning("%s is empty: it makes no snapshot", printable(file.name))
            reading.count("empty_files", 1)
        except BadInput as error:
            reading.on_bad_row(BadRow(f"{file.name} makes no snapshot: {error}"))


def _snapshot(file: Path, window: Window, reading: _Reading) -> Snapshot:
    if file.exists() and not file.is_file():  # such as a named pipe, which would wait for a writer
        raise BadInput("it is no regular file")
    if form_of(file.name) in _PICKLES:
        raise BadInput("opening a pickle can run any code: save GraphML instead")
    edges = read_edge_list(
        file,
        reading.id_kind,
        reading.on_bad_row,
        partial(reading.warn_once, file.name),
        reading.limits,
        partial(reading.settle, file.name),
        reading.kind_before,
    )
    snapshot = snapshot_from_pairs(
        edges["src"],
        edges["dst"],
        graph=reading.graph,
        id=f"{reading.graph}/{file.name}",
        window=window,
        weights=edges["weight"] if "weight" in edges.column_names else None,
        source="urn:stream_icd:files",
    )
    kind = snapshot.kind_of_ids
    reading.kind_before = lambda: kind
    return snapshot


def _windows_of(
    modified_ns: Mapping[str, int], window: WindowOf | None = None
) -> dict[str, Window]:
    """Return the window of each file in a folder, by its name, given when each was changed.

    A window begins at the date or time in the name and ends at that of the next file
    (`windows_at`); the window of a single file is a day, or a moment if the name has a clock
    time. Without a time in the name, it is the moment when the file was changed. All UTC.

    >>> _windows_of({"mails-2026-01-31.csv": 0})["mails-2026-01-31.csv"].end.isoformat()
    '2026-02-01T00:00:00+00:00'
    """
    named = {name: time for name in modified_ns if (time := _time_in(name)) is not None}
    has_clock = any(clock for _, clock in named.values())
    alone = timedelta(0) if has_clock else timedelta(days=1)
    windows = windows_at((time for time, _ in named.values()), window, alone)
    moments = {name: time_at(changed // 1000) for name, changed in modified_ns.items()}
    return {
        name: windows[named[name][0]] if name in named else Window(moment, moment)
        for name, moment in moments.items()
    }


def _time_in(name: str) -> tuple[datetime, bool] | None:
    """Return the time in a file's name, and whether it has a clock time."""
    for match in _DATE.finditer(name):
        parts = [int(part) for part in match.groups() if part is not None]
        try:
            return datetime(*parts, tzinfo=UTC), len(parts) > 3  # type: ignore[arg-type, misc]
        except ValueError:
            continue
    return None
