"""Daily Internet topologies, a graph of autonomous systems (AS) a day.

J. Leskovec, J. Kleinberg and C. Faloutsos, "Graphs over Time: Densification Laws, Shrinking
Diameters and Possible Explanations", KDD 2005.
"""

from __future__ import annotations

import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from stream_icd.errors import BadRow, BadSettings, BadSnapshot, SourceNotFound
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.as_links import PAIRS, read_links
from stream_icd.sources.compressed import DAMAGED, uncompressed
from stream_icd.sources.source import OnBadRow, Source, stop_at_bad_row

GRAPH = "as733"
SOURCE = "https://snap.stanford.edu/data/as-733.html"
DAY_FILE = re.compile(r"(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)[^/]*\.txt(\.gz|\.bz2)?$")
ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar")

ReadDay = Callable[[OnBadRow], pa.Table]
"""Reads the pairs of one day, columns `src` and `dst`."""
OpenFile = Callable[[], IO[bytes]]


def read_as_topology(
    path: Path,
    *,
    first: date | None = None,
    last: date | None = None,
    graph: str = GRAPH,
    source: str = SOURCE,
    on_bad_row: OnBadRow = stop_at_bad_row,
) -> Source:
    """One snapshot a day, from text files in the forms of `as_links`, or from Parquet.

    Args:
        path: a directory of files whose names hold the day and end in `.txt` (or `.txt.gz`,
            `.txt.bz2`), such as `as19971108.txt` or `rib.20080101.0000.txt.gz`; one such file;
            an archive of them (`as-733.tar.gz`); or a Parquet file with columns `window_start`
            (date), `src` and `dst`. Several files of one day are one snapshot.
        first, last: days to begin and to end with, both included.
        source: who says so, the snapshots' `ce_source`.
        on_bad_row: called with each line that is of no known form, with each file that is
            damaged, and with each day that has no link.

    Raises:
        SourceNotFound: nothing at `path`, or no day in it.
        BadSettings: `path` is of no form known here, or no day lies between `first` and `last`.
    """
    days = _days(path)
    if not days:
        raise SourceNotFound(f"{path} holds no day; expected files named as19971108.txt or so")
    wanted = sorted(day for day in days if (first or day) <= day <= (last or day))
    if not wanted:
        raise BadSettings(
            f"no day from {first or 'the beginning'} to {last or 'the end'} in {path}; "
            f"it holds {min(days)} to {max(days)}"
        )
    return Source(len(wanted), _snapshots(days, wanted, graph, source, on_bad_row))


def _snapshots(
    days: Mapping[date, ReadDay], wanted: list[date], graph: str, source: str, on_bad_row: OnBadRow
) -> Iterator[tuple[Snapshot, None]]:
    for day in wanted:
        pairs = days[day](on_bad_row)
        start = datetime.combine(day, time(), UTC)
        try:
            snapshot = snapshot_from_pairs(
                pairs["src"],
                pairs["dst"],
                graph=graph,
                id=f"{graph}/{day}",
                window=Window(start, start + timedelta(days=1)),
                source=source,
            )
        except BadSnapshot as error:
            on_bad_row(BadRow(f"{day}: {error}"))
            continue
        yield snapshot, None


def _days(path: Path) -> Mapping[date, ReadDay]:
    if not path.exists():
        raise SourceNotFound(f"nothing at {path}; get it with: stream-icd data fetch as-733")
    if path.is_dir():
        return _days_of_files({str(file): _opens(file) for file in sorted(path.iterdir())})
    if path.name.endswith(ARCHIVES):
        return _days_of_files(_members(path))
    if path.suffix == ".parquet":
        return _days_of_parquet(path)
    if DAY_FILE.search(path.name):
        return _days_of_files({str(path): _opens(path)})
    raise BadSettings(
        f"{path} is neither a directory of files like as19971108.txt, nor such a file (the day in "
        f"its name, .txt at its end), nor .tar.gz, nor .parquet"
    )


def _days_of_files(files: Mapping[str, OpenFile]) -> Mapping[date, ReadDay]:
    by_day: dict[date, dict[str, OpenFile]] = defaultdict(dict)
    for name, opens in files.items():
        match = DAY_FILE.search(Path(name).name)
        if match is not None:
            by_day[_day_of(match)][Path(name).name] = opens
    return {day: _reads(files_of_day) for day, files_of_day in by_day.items()}


def _day_of(match: re.Match[str]) -> date:
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise BadSettings(f"the file name {match.string} holds no date: {error}") from error


def _reads(files: Mapping[str, OpenFile]) -> ReadDay:
    def read(on_bad_row: OnBadRow) -> pa.Table:
        tables = [_read(name, opens, on_bad_row) for name, opens in files.items()]
        return pa.concat_tables(tables)

    return read


def _read(name: str, opens: OpenFile, on_bad_row: OnBadRow) -> pa.Table:
    try:
        with opens() as packed, uncompressed(packed, name) as file:
            return read_links(file, name, on_bad_row)
    except DAMAGED as error:
        on_bad_row(BadRow(f"{name} is damaged, nothing of it was used: {error}"))
        return PAIRS.empty_table()


def _opens(file: Path) -> OpenFile:
    return lambda: file.open("rb")


def _members(path: Path) -> Mapping[str, OpenFile]:
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - the readers below outlive this function
        members = [member for member in archive.getmembers() if member.isfile()]
    except DAMAGED as error:
        raise BadSettings(f"{path} is no tar archive, or a damaged one: {error}") from error

    def opens(member: tarfile.TarInfo) -> OpenFile:
        return lambda: cast(IO[bytes], archive.extractfile(member))

    return {member.name: opens(member) for member in members}


def _days_of_parquet(path: Path) -> Mapping[date, ReadDay]:
    try:
        table = pq.read_table(path, columns=["window_start", "src", "dst"])
        day = table["window_start"].cast(pa.date32())
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BadSettings(f"{path} has no columns window_start, src and dst: {error}") from error
    # Stored by pair, since that compresses best; a stable sort keeps the pairs in order.
    by_day = table.set_column(0, "window_start", day).sort_by("window_start")
    reads: dict[date, ReadDay] = {}
    offset = 0
    for count in by_day["window_start"].value_counts().to_pylist():
        reads[count["values"]] = _slice(by_day, offset, count["counts"])
        offset += count["counts"]
    return reads


def _slice(table: pa.Table, offset: int, length: int) -> ReadDay:
    return lambda _on_bad_row: table.slice(offset, length)
