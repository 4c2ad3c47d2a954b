"""Daily Internet topologies: links between autonomous systems (AS), as SNAP's AS-733 keeps them.

J. Leskovec, J. Kleinberg and C. Faloutsos, "Graphs over Time: Densification Laws, Shrinking
Diameters and Possible Explanations", KDD 2005.
"""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from stream_icd.errors import BadRow, BadSettings, BadSnapshot, SourceNotFound
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.source import OnBadRow, Source, stop_at_bad_row

GRAPH = "as733"
SOURCE = "https://snap.stanford.edu/data/as-733.html"
DAY_FILE = re.compile(r"as(\d{4})(\d{2})(\d{2})\.txt(\.gz)?$")

ReadDay = Callable[[OnBadRow], pa.Table]
"""Reads the pairs of one day, columns `src` and `dst`."""


def read_as_topology(
    path: Path,
    *,
    first: date | None = None,
    last: date | None = None,
    graph: str = GRAPH,
    on_bad_row: OnBadRow = stop_at_bad_row,
) -> Source:
    """One snapshot a day, from SNAP's own files or from Parquet.

    Args:
        path: a directory of `asYYYYMMDD.txt` (or `.txt.gz`), one such file, `as-733.tar.gz`, or a
            Parquet file with columns `snapshot`, `window_start` (date), `src` and `dst`.
        first, last: days to begin and to end with, both included.
        on_bad_row: called with each line that is no pair of AS numbers.

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
            f"no day from {first} to {last} in {path}; it holds {min(days)} to {max(days)}"
        )
    return Source(len(wanted), _snapshots(days, wanted, graph, on_bad_row))


def _snapshots(
    days: Mapping[date, ReadDay], wanted: list[date], graph: str, on_bad_row: OnBadRow
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
                source=SOURCE,
            )
        except BadSnapshot as error:
            on_bad_row(BadRow(f"{day}: {error}"))
            continue
        yield snapshot, None


def _days(path: Path) -> Mapping[date, ReadDay]:
    if not path.exists():
        raise SourceNotFound(f"nothing at {path}; download as-733.tar.gz from {SOURCE}")
    if path.is_dir():
        files = [file for file in path.iterdir() if DAY_FILE.search(file.name)]
        return {_day_of(file.name): _from_file(file) for file in files}
    if path.name.endswith((".tar.gz", ".tgz", ".tar")):
        return _days_of_archive(path)
    if path.suffix == ".parquet":
        return _days_of_parquet(path)
    if DAY_FILE.search(path.name):
        return {_day_of(path.name): _from_file(path)}
    raise BadSettings(
        f"{path} is neither a directory of asYYYYMMDD.txt, nor such a file, nor .tar.gz, "
        f"nor .parquet"
    )


def _day_of(name: str) -> date:
    match = DAY_FILE.search(name)
    assert match is not None, name
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise BadSettings(f"the file name {name} holds no date: {error}") from error


def _from_file(file: Path) -> ReadDay:
    def read(on_bad_row: OnBadRow) -> pa.Table:
        return parse_pairs(_unzipped(file.read_bytes()), file.name, on_bad_row)

    return read


def _days_of_archive(path: Path) -> Mapping[date, ReadDay]:
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - the readers below outlive this function
        members = [m for m in archive.getmembers() if m.isfile() and DAY_FILE.search(m.name)]
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BadSettings(f"{path} is no tar archive, or a damaged one: {error}") from error

    def reader(member: tarfile.TarInfo) -> ReadDay:
        def read(on_bad_row: OnBadRow) -> pa.Table:
            file = archive.extractfile(member)
            assert file is not None, member.name
            return parse_pairs(_unzipped(file.read()), member.name, on_bad_row)

        return read

    return {_day_of(member.name): reader(member) for member in members}


def _days_of_parquet(path: Path) -> Mapping[date, ReadDay]:
    try:
        table = pq.read_table(path, columns=["window_start", "src", "dst"])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BadSettings(f"{path} has no columns window_start, src and dst: {error}") from error
    # Stored by pair, since that compresses best; a stable sort keeps the pairs in order.
    by_day = table.sort_by("window_start")
    counts = by_day["window_start"].value_counts()
    reads: dict[date, ReadDay] = {}
    offset = 0
    for count in counts.to_pylist():
        reads[count["values"]] = _slice(by_day, offset, count["counts"])
        offset += count["counts"]
    return reads


def _slice(table: pa.Table, offset: int, length: int) -> ReadDay:
    return lambda _on_bad_row: table.slice(offset, length)


def _unzipped(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def parse_pairs(content: bytes, name: str, on_bad_row: OnBadRow) -> pa.Table:
    """Tab-separated pairs of AS numbers; lines that begin with `#` are comments.

    Both directions and self loops may stand there; `snapshot_from_pairs` brings them into form.

    >>> parse_pairs(b"# comment\\n1\\t2\\n2\\t1\\n", "day", stop_at_bad_row).to_pydict()
    {'src': [1, 2], 'dst': [2, 1]}
    """

    def skip(row: csv.InvalidRow) -> str:
        if not row.text.startswith("#"):
            on_bad_row(BadRow(f"{name}: {row.text!r:.80} is no pair of AS numbers"))
        return "skip"

    text = pa.table({"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())})
    if content.strip():
        text = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(column_names=["src", "dst"], use_threads=False),
            csv.ParseOptions(delimiter="\t", invalid_row_handler=skip),
            csv.ConvertOptions(column_types={"src": pa.string(), "dst": pa.string()}),
        )
    good = _all_digits(text)
    for row in text.filter(pc.invert(good)).to_pylist():
        if not row["src"].startswith("#"):
            on_bad_row(BadRow(f"{name}: {row['src']!r:.40}, {row['dst']!r:.40} are no AS numbers"))
    return text.filter(good).cast(pa.schema({"src": pa.int64(), "dst": pa.int64()}))


def _all_digits(text: pa.Table) -> pa.ChunkedArray:
    # AS numbers have 32 bits (RFC 6793): ten digits at the most.
    def digits(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.match_substring_regex(column, r"^\d{1,10}$")

    return pc.and_(digits(text["src"]), digits(text["dst"]))
