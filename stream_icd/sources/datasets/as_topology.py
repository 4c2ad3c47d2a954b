"""Internet topologies: a time series of graphs of autonomous systems (AS), such as daily ones.

J. Leskovec, J. Kleinberg and C. Faloutsos, "Graphs over Time: Densification Laws, Shrinking
Diameters and Possible Explanations", KDD 2005.

The published text formats:

| form | a line | where |
| --- | --- | --- |
| pairs | `701<tab>1239`, or with a third column | SNAP as-733, oregon and as-caida |
| relationships | `701|1239|-1`, or with a fourth column | CAIDA as-rel, serial 1 and 2 |
| routes | `TABLE_DUMP2|1199145600|B|…|701 1239 7018|…` | a routing table: `bgpdump -m` |

Lines that begin with `#` are comments.
"""

from __future__ import annotations

import logging
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from stream_icd.core.errors import BadRow, BadSettings, BadSnapshot, SourceNotFound
from stream_icd.core.node_ids import plain_columns
from stream_icd.core.printable import listed, printable
from stream_icd.core.snapshot import EPOCH, Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import WindowOf, parse_window, windows_at
from stream_icd.sources.content import DAMAGED, OPENERS, uncompressed
from stream_icd.sources.source import OnBadRow, Source, stop_at_bad_row
from stream_icd.sources.tables import check_columns

_LOG = logging.getLogger(__name__)
_SOURCE = "urn:stream_icd:as"
_TIME = re.compile(r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?:[.T_-](\d{2}):?(\d{2}))?(?!\d)")
_TEXT_FILE = re.compile(rf"\.txt({'|'.join(map(re.escape, OPENERS))})?$", re.IGNORECASE)
_ARCHIVE = re.compile(r"\.(tar|tar\.gz|tar\.bz2|tar\.xz|tgz)$")
_ENDING = re.compile(rf"{_TEXT_FILE.pattern}|{_ARCHIVE.pattern}|\.parquet$", re.IGNORECASE)
_DAY = timedelta(days=1)
_MINUTE = timedelta(minutes=1)
_COLUMNS = ["window_start", "src", "dst"]
"""Of a Parquet file."""
_SPACES = re.compile(rb"^ +| +(?=\r?$)|(?<= ) +", re.MULTILINE)
_ROUTE_KINDS = (b"TABLE_DUMP|", b"TABLE_DUMP2|", b"BGP4MP|", b"BGP4MP_ET|")
_PATH_FIELD = 6
# AS numbers have 32 bits (RFC 6793): at most ten digits.
_AS_NUMBER = r"^[0-9]{1,10}$"
_PAIRS = pa.schema({"src": pa.int64(), "dst": pa.int64()})

_ReadPairs = Callable[[OnBadRow], pa.Table]
"""Reads the pairs of a file, or of a time in it, columns `src` and `dst`."""
_OpenFile = Callable[[], IO[bytes]]


def read_as_topology(
    path: Path,
    *,
    first: date | None = None,
    last: date | None = None,
    window: WindowOf | None = None,
    graph: str | None = None,
    source: str = _SOURCE,
    on_bad_row: OnBadRow = stop_at_bad_row,
) -> Source:
    """Read one snapshot per date and time in the names of text files, or in a Parquet file.

    `path` is a folder of text files such as `rib.20080101.0200.txt.gz`, one such file, an archive
    of them (`as-733.tar.gz`), or Parquet with the columns `window_start` (date or timestamp, UTC),
    `src` and `dst`. Files of the same time are one snapshot; so are all files of a `window`, which
    by default lasts until the time of the next file (`windows_at`). Names that begin with a dot are
    ignored, other files are logged. Damaged files, and windows without links, are bad rows, too.

    Raises `SourceNotFound` if `path` does not exist or holds no date; `BadSettings` if its format
    is unknown, or no date is between `first` and `last`, both included.
    """
    times = _times(path)
    if not times:
        raise SourceNotFound(
            f"{path} holds no date: expected files with names such as as19971108.txt"
        )
    if len(times) == 1:
        window = window or parse_window("1d")
    reads_of: dict[Window, list[_ReadPairs]] = defaultdict(list)
    for time, its_window in windows_at(times, window, _DAY).items():
        if (first or date.min) <= its_window.start.date() <= (last or date.max):
            reads_of[its_window] += times[time]
    if not reads_of:
        raise BadSettings(
            f"no day from {first or 'the beginning'} to {last or 'the end'} in {path}; "
            f"it holds {min(times).date()} to {max(times).date()}"
        )
    snapshots = _snapshots(reads_of, graph or name_of(path), source, on_bad_row)
    return Source(len(reads_of), snapshots)


def name_of(path: Path) -> str:
    """Return the graph name of a file or folder: its name without time and file endings.

    >>> [name_of(Path(name)) for name in ("as-caida.tar.gz", "rib.20080101.0000.txt")]
    ['as-caida', 'rib']
    """
    name = _ENDING.sub("", path.resolve().name)
    return _TIME.sub("", name).strip("-_. ") or "as"


def _snapshots(
    reads_of: Mapping[Window, Sequence[_ReadPairs]], graph: str, source: str, on_bad_row: OnBadRow
) -> Iterator[tuple[Snapshot, None]]:
    for window, reads in reads_of.items():
        pairs = pa.concat_tables([read(on_bad_row) for read in reads])
        # The day on which it begins, or the minute or second if it is not whole days.
        whole_days = not (window.start - EPOCH) % _DAY and not (window.end - window.start) % _DAY
        precision = "auto" if (window.start - EPOCH) % _MINUTE else "minutes"
        time = window.start.replace(tzinfo=None).isoformat(timespec=precision)
        name = time[:10] if whole_days else f"{time}Z"
        try:
            snapshot = snapshot_from_pairs(
                pairs["src"],
                pairs["dst"],
                graph=graph,
                id=f"{graph}/{name}",
                window=window,
                source=source,
            )
        except BadSnapshot as error:
            on_bad_row(BadRow(f"{name}: {error}"))
            continue
        yield snapshot, None


def _times(path: Path) -> Mapping[datetime, Sequence[_ReadPairs]]:
    if not path.exists():
        raise SourceNotFound(f"nothing at {path}; get it with: stream-icd data fetch as-733")
    if path.suffix == ".parquet" and path.is_file():
        return _times_of_parquet(path)
    files: Mapping[str, _OpenFile]
    if path.is_dir():
        files = {file.name: partial(file.open, "rb") for file in sorted(path.iterdir())}
    elif _ARCHIVE.search(path.name):
        files = _members(path)
    elif _time_in(path.name) is not None:
        files = {path.name: partial(path.open, "rb")}
    else:
        raise BadSettings(
            f"{path} is neither a directory of files like as19971108.txt, nor such a file (a date "
            f"in its name, .txt at its end), nor .tar.gz, nor .parquet"
        )
    reads: dict[datetime, list[_ReadPairs]] = defaultdict(list)
    left_out = []
    for member, opens in files.items():
        name = Path(member).name
        if name.startswith("."):
            continue
        if (time := _time_in(name)) is not None:
            reads[time].append(partial(_read, name, opens))
        else:
            left_out.append(member)
    if left_out:
        _LOG.warning(
            "not read in %s: %s. Files are read whose names hold a date and end in .txt, also "
            "compressed (%s)",
            printable(path.name),
            listed(left_out),
            ", ".join(OPENERS),
        )
    return reads


def _members(path: Path) -> Mapping[str, _OpenFile]:
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - the readers below outlive this function
        members = [
            member for member in archive.getmembers() if not (member.isdir() or member.isdev())
        ]
    except DAMAGED as error:
        raise BadSettings(f"{path} is not a tar archive, or is damaged: {error}") from error

    return {member.name: partial(_opened, archive, member) for member in members}


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    with suppress(KeyError, RecursionError):  # a link to what is not there, or to itself
        if (file := archive.extractfile(member)) is not None:
            return file
    raise tarfile.ReadError(f"the archive has no file {member.linkname}, to which it is a link")


def _time_in(name: str) -> datetime | None:
    """Return the time in a file's name; None if it is not a text file with a time."""
    match = _TIME.search(name)
    if match is None or not _TEXT_FILE.search(name):
        return None
    try:
        return datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError as error:
        raise BadSettings(f"the file name {name} holds no date: {error}") from error


def _read(name: str, opens: _OpenFile, on_bad_row: OnBadRow) -> pa.Table:
    try:
        with opens() as packed, uncompressed(packed, name) as file:
            return _read_links(file, name, on_bad_row)
    except DAMAGED as error:
        on_bad_row(BadRow(f"{name} is damaged, nothing of it was used: {error}"))
        return _PAIRS.empty_table()


def _times_of_parquet(path: Path) -> Mapping[datetime, Sequence[_ReadPairs]]:
    table = _read_parquet(path)
    kind = table["window_start"].type
    try:
        if pa.types.is_integer(kind):  # Arrow would take them for microseconds
            raise pa.ArrowTypeError(kind)
        time = table["window_start"].cast(pa.timestamp("us", "UTC"))
        # Rows are stored by pair, which compresses best; a stable sort keeps the pairs in order.
        by_time = table.set_column(0, "window_start", time).sort_by("window_start")
        counts = by_time["window_start"].value_counts().to_pylist()
    except MemoryError:
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise BadSettings(
            f"{path}: window_start ({kind}) does not hold dates or times from the year 1 to 9999"
        ) from error
    if time.null_count:
        raise BadSettings(f"{path}: window_start is missing in {time.null_count:,} rows")
    pairs = by_time.select(["src", "dst"])
    reads: dict[datetime, Sequence[_ReadPairs]] = {}
    offset = 0
    for count in counts:
        reads[count["values"].astimezone(UTC)] = [partial(_rows, pairs, offset, count["counts"])]
        offset += count["counts"]
    return reads


def _read_parquet(path: Path) -> pa.Table:
    """Read the columns `_COLUMNS` of a Parquet file, each of which must be there once."""
    try:
        check_columns(str(path), pq.read_schema(path).names, _COLUMNS)
        return plain_columns(pq.read_table(path, columns=_COLUMNS))
    except MemoryError:
        raise
    except (pa.ArrowException, *DAMAGED) as error:
        raise BadSettings(f"{path} is not Parquet, or is damaged: {error}") from error


def _rows(pairs: pa.Table, offset: int, length: int, _on_bad_row: OnBadRow) -> pa.Table:
    return pairs.slice(offset, length)


def _read_links(file: IO[bytes], name: str, on_bad_row: OnBadRow) -> pa.Table:
    """Read the links of one file in any of the formats, also in both directions and repeated.

    Raises `BadSettings` if the file is binary, such as a routing table not yet converted to text.
    """
    first = next((line for line in file if line.strip() and not line.startswith(b"#")), b"")
    if b"\0" in first:
        raise BadSettings(f"{name} is binary; turn routing tables into text with bgpdump -m")
    if first.startswith(_ROUTE_KINDS):
        return _links_of_routes(chain([first], file), name, on_bad_row)
    content = first + file.read()
    delimiter = "|" if b"|" in first else "\t" if b"\t" in first else " "
    if delimiter == " ":  # several may align the columns
        content = _SPACES.sub(b"", content)
    return _links_of_pairs(content, delimiter, name, on_bad_row)


def _links_of_pairs(content: bytes, delimiter: str, name: str, on_bad_row: OnBadRow) -> pa.Table:
    invalid: list[str] = []

    # What is raised in here gets lost, so the rows are reported after reading.
    def skip(row: csv.InvalidRow) -> str:
        invalid.append(row.text)
        return "skip"

    if not content.strip():
        return _PAIRS.empty_table()
    n_columns = content.split(b"\n", 1)[0].count(delimiter.encode()) + 1
    columns = ["src", "dst", *(f"more{i}" for i in range(2, n_columns))]
    text = csv.read_csv(
        pa.BufferReader(content.decode(errors="replace").encode()),
        csv.ReadOptions(column_names=columns, use_threads=False),
        # An unmatched quote would consume the lines up to the next quote.
        csv.ParseOptions(delimiter=delimiter, quote_char=False, invalid_row_handler=skip),
        csv.ConvertOptions(
            column_types={"src": pa.string(), "dst": pa.string()}, include_columns=["src", "dst"]
        ),
    )
    for line in invalid:
        if not line.startswith("#"):
            on_bad_row(BadRow(f"{name}: {line!r:.80} is not a pair of AS numbers"))
    src, dst = (pc.match_substring_regex(text[end], _AS_NUMBER) for end in ("src", "dst"))
    good = pc.and_(src, dst)
    for row in text.filter(pc.invert(good)).to_pylist():
        if not row["src"].startswith("#"):
            on_bad_row(BadRow(f"{name}: {row['src']!r:.40}, {row['dst']!r:.40} are not AS numbers"))
    return text.filter(good).cast(_PAIRS)


def _links_of_routes(lines: Iterable[bytes], name: str, on_bad_row: OnBadRow) -> pa.Table:
    """Return the links between neighbours on AS paths; parse each distinct path once."""
    links: set[tuple[int, int]] = set()
    for path in set(_paths(lines, name, on_bad_row)):
        try:
            links.update(_links_of_path(path.decode()))
        except ValueError:
            on_bad_row(BadRow(f"{name}: {path!r:.80} is not an AS path"))
    ends = np.array(sorted(links), np.int64).reshape(-1, 2)
    return pa.table([ends[:, 0], ends[:, 1]], schema=_PAIRS)


def _paths(lines: Iterable[bytes], name: str, on_bad_row: OnBadRow) -> Iterator[bytes]:
    for line in lines:
        fields = line.split(b"|", _PATH_FIELD + 1)
        if len(fields) > _PATH_FIELD + 1:
            yield fields[_PATH_FIELD]
            continue
        # In a file of updates, a withdrawal or a session state says nothing of links.
        says_nothing = line.startswith(b"#") or fields[2:3] in ([b"W"], [b"STATE"])
        if line.strip() and not says_nothing:
            on_bad_row(BadRow(f"{name}: {line!r:.80} is not a route of bgpdump -m"))


def _links_of_path(path: str) -> Iterator[tuple[int, int]]:
    """Yield the neighbours on an AS path, lower number first; each once, without prepending.

    A set of ASes (`{…}`, from aggregation) or a confederation (`(…)`) has no order, so no link
    goes into it, out of it or across it.

    Raises `ValueError` if an element of the path is not an AS number.

    >>> list(_links_of_path("701 1239 1239 7018 {64500,64501} 3356 2914"))
    [(701, 1239), (1239, 7018), (2914, 3356)]
    """
    hops = [None if hop[0] in "{([" else _as_number(hop) for hop in path.split()]
    for hop, following in pairwise(hops):
        if hop is not None and following is not None and hop != following:
            yield min(hop, following), max(hop, following)


def _as_number(text: str) -> int:
    if not re.fullmatch(_AS_NUMBER, text):
        raise ValueError(text)
    return int(text)
