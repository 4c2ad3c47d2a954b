"""A folder of edge lists, one snapshot a file; it may be watched for more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stream_icd.errors import BadInput, BadRow, BadSettings, SourceNotFound
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.edge_list import is_edge_list, read_edge_list
from stream_icd.sources.source import NeverStop, OnBadRow, Source, Stop, stop_at_bad_row
from stream_icd.sources.values import IdKind

PICKLES = (".pickle", ".pkl", ".gpickle", ".p")
DATE = re.compile(
    r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?:[T_ -]?(\d{2})[:h-]?(\d{2})(?:[:m-]?(\d{2}))?)?(?!\d)"
)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """Tells whether a file has changed."""

    modified_ns: int
    size: int


def watch_edge_files(
    folder: Path,
    *,
    graph: str = "files",
    id_kind: IdKind = "auto",
    every_s: float | None = None,
    on_bad_row: OnBadRow = stop_at_bad_row,
    stop: Stop = NeverStop(),
) -> Source:
    """A snapshot for each file, in the order of their names, named `graph/file name`.

    Names that begin with a dot or end in `.tmp` or `.part` are somebody's who is still writing;
    names of no known form are left alone.

    Args:
        every_s: go on looking for files that come or change, so often; a file is read when it has
            stayed the same from one look to the next. By default it ends after one look.
        on_bad_row: called with each row, and each file, that cannot be read.

    Raises:
        SourceNotFound: no such folder, or no file to send in it and nobody is going to wait.
        BadSettings: it is no folder, or `every_s` is not positive.
    """
    if not folder.exists():
        raise SourceNotFound(f"nothing at {folder}; make the folder, then put edge lists there")
    if not folder.is_dir():
        raise BadSettings(f"{folder} is no folder; give the folder that the file is in")
    if every_s is not None and every_s <= 0:
        raise BadSettings(f"looking every {every_s:g} s; give a span above 0")
    if every_s is not None:
        return Source(None, _watch(folder, graph, id_kind, every_s, on_bad_row, stop))
    files = list(_files(folder))
    if not files:
        raise SourceNotFound(f"{folder} holds no edge list (.csv, .parquet, .arrow, .graphml, …)")
    return Source(len(files), _read_all(files, graph, id_kind, on_bad_row))


def _watch(
    folder: Path, graph: str, id_kind: IdKind, every_s: float, on_bad_row: OnBadRow, stop: Stop
) -> Iterator[tuple[Snapshot, None]]:
    before: dict[Path, _Stamp] = {}
    done: dict[Path, _Stamp] = {}
    while not stop.is_set():
        now = dict(_files(folder))
        ready = [f for f, stamp in now.items() if before.get(f) == stamp != done.get(f)]
        for file in ready:
            done[file] = now[file]
        yield from _read_all([(f, now[f]) for f in ready], graph, id_kind, on_bad_row)
        before = now
        stop.wait(every_s)


def _files(folder: Path) -> Iterator[tuple[Path, _Stamp]]:
    for file in sorted(folder.iterdir()):
        name = file.name
        if name.startswith(".") or name.endswith((".tmp", ".part")):
            continue
        if is_edge_list(file) or file.suffix in PICKLES:
            try:
                stat = file.stat()
            except FileNotFoundError:  # it was there a moment ago
                continue
            yield file, _Stamp(stat.st_mtime_ns, stat.st_size)


def _read_all(
    files: list[tuple[Path, _Stamp]], graph: str, id_kind: IdKind, on_bad_row: OnBadRow
) -> Iterator[tuple[Snapshot, None]]:
    for file, stamp in files:
        try:
            yield _snapshot(file, stamp, graph, id_kind, on_bad_row), None
        except BadRow as error:  # of one row: the reader was told to stop there
            raise error
        except BadInput as error:
            on_bad_row(BadRow(f"{file.name} makes no snapshot: {error}"))


def _snapshot(
    file: Path, stamp: _Stamp, graph: str, id_kind: IdKind, on_bad_row: OnBadRow
) -> Snapshot:
    if file.suffix in PICKLES:
        raise BadInput("a pickle runs whatever program it holds when it is opened; save GraphML")
    edges = read_edge_list(file, id_kind, on_bad_row)
    return snapshot_from_pairs(
        edges["src"],
        edges["dst"],
        graph=graph,
        id=f"{graph}/{file.name}",
        window=window_of(file.name, stamp.modified_ns),
        weights=edges["weight"] if "weight" in edges.column_names else None,
        source="urn:stream_icd:files",
    )


def window_of(name: str, modified_ns: int) -> Window:
    """The day or the moment that a file's name holds, else when it was changed; UTC.

    >>> window_of("mails-2026-01-31.csv", 0).end.isoformat()
    '2026-02-01T00:00:00+00:00'
    """
    for match in DATE.finditer(name):
        parts = [int(part) for part in match.groups() if part is not None]
        try:
            start = datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]
        except ValueError:
            continue
        return Window(start, start + timedelta(days=1) if len(parts) == 3 else start)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=modified_ns // 1000)
    return Window(moment, moment)
