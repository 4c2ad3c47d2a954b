"""Read tables in common formats: CSV, JSON lines, Parquet; one file or a folder.

They are read in batches, so that a file may be larger than memory.
"""

from __future__ import annotations

import bz2
import csv as one_line
import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_icd.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.node_ids import without_views
from stream_icd.sources.source import OnBadRow

BATCH_BYTES = 4 << 20
BATCH_ROWS = 1 << 16
DELIMITERS = ("\t", ",", ";", "|", " ")
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Replaces bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Rows whose values are not yet checked.

    Attributes:
        origin: the file's name, or the topic's.
        place: (n,) line, row or offset of each in its origin.
        rows: (n rows), the requested columns; text if the format has no types.
        stream: number of their ordered stream, such as a topic's partition.
    """

    origin: str
    place: NDArray[np.int64]
    rows: pa.Table
    stream: int = 0


def read_rows(
    path: Path,
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    *,
    header: Sequence[str] | None = None,
) -> Iterator[RawRows]:
    """Read columns of a file, or of all files in a folder and its subfolders, in name order.

    The name sets the format: `.csv`, `.tsv`, `.txt` (with a header line, unless `header` names
    the columns; the first line determines the separator), `.jsonl` or `.ndjson`, each also as `.gz`
    or `.bz2`; `.parquet`.

    Raises:
        SourceNotFound: `path` does not exist, or its folder has no such file.
        BadSettings: the format is unknown, or a column is missing.
    """
    files = [path]
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if _form(file) is not None]
    if not path.exists() or not files:
        raise SourceNotFound(f"nothing at {path}; give a file or a folder of {', '.join(FORMS)}")
    for file in files:
        form = _form(file)
        if form is None:
            raise BadSettings(f"{file.name} is none of {', '.join(FORMS)}")
    return _read_files(files, columns, on_bad_row, header)


def _read_files(
    files: Iterable[Path],
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    header: Sequence[str] | None,
) -> Iterator[RawRows]:
    for file in files:
        form = _form(file)
        assert form is not None
        try:
            with file.open("rb") as packed, uncompressed(packed, file.name) as content:
                yield from form(content, file.name, columns, on_bad_row, header)
        except MemoryError:
            raise
        except (*DAMAGED, pa.ArrowException) as error:
            on_bad_row(BadRow(f"{file.name} is damaged; the rest of it was not used: {error}"))


def _form(file: Path) -> Read | None:
    return FORMS.get(Path(bare_name(file.name)).suffix.lower()) if file.is_file() else None


def first_fields(path: Path) -> list[str]:
    """Return the fields of the first line of a text file that is not empty or a comment."""
    with path.open("rb") as packed, uncompressed(packed, path.name) as content:
        _, first = _first_line(content)
    return _fields(first) if first else []


def columns_of(path: Path, header: Sequence[str] | None = None) -> list[str]:
    """Return the columns of a file that `read_rows` reads, or of the first such file in a folder.

    Empty if there is no file, or it is empty or damaged: `read_rows` says so.

    Args:
        header: the columns of a text file without a header line.
    """
    files = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    file = next((one for one in files if _form(one) is not None), None)
    if file is None:
        return []
    form = _form(file)
    try:
        if form is _read_parquet:
            return list(pq.read_schema(file).names)
        if form is _read_json_lines:
            with file.open("rb") as packed, uncompressed(packed, file.name) as content:
                return list(json.loads(_first_line(content)[1] or "{}"))
        return list(header) if header else first_fields(file)
    except MemoryError:
        raise
    except (*DAMAGED, pa.ArrowException, ValueError, TypeError):
        return []


def _fields(line: str) -> list[str]:
    return next(one_line.reader([line], delimiter=_delimiter(line)))


def _delimiter(line: str) -> str:
    return next((delimiter for delimiter in DELIMITERS if delimiter in line), ",")


def _read_text(
    content: IO[bytes],
    name: str,
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    header: Sequence[str] | None,
) -> Iterator[RawRows]:
    """Read batches of whole lines; values are text."""
    line_number, first = _first_line(content)
    if not first:
        return
    delimiter = _delimiter(first)
    lines_before = line_number - 1
    if header is None:
        header = _fields(first)
        lines_before, first = line_number, ""
    missing = set(columns) - set(header)
    if missing or len(set(header)) < len(header):
        raise BadSettings(
            f"{name} has the columns {', '.join(header)}; expected {', '.join(columns)}. Name "
            "them, or give --columns if the first line is a row"
        )
    for batch in _batches(first.encode(), content):
        if batch.strip():
            yield _parse(batch, name, lines_before, delimiter, header, columns, on_bad_row)
        lines_before += batch.count(b"\n")


def _first_line(content: IO[bytes]) -> tuple[int, str]:
    """Return number and text of the first line that is neither empty nor a comment."""
    for number, line in enumerate(content, start=1):
        text = line.decode("utf-8-sig", errors="replace")
        if text.strip() and not text.startswith("#"):
            return number, text if text.endswith("\n") else text + "\n"
    return 0, ""


def _batches(first: bytes, content: IO[bytes]) -> Iterator[bytes]:
    batch = first + content.read(BATCH_BYTES)
    while batch:
        yield batch + content.readline()
        batch = content.read(BATCH_BYTES)


def _parse(
    batch: bytes,
    name: str,
    lines_before: int,
    delimiter: str,
    header: Sequence[str],
    columns: Sequence[str],
    on_bad_row: OnBadRow,
) -> RawRows:
    bad: dict[int, str] = {}

    # What is raised in here gets lost, so the rows are reported after reading.
    def skip(row: csv.InvalidRow) -> str:
        bad[row.number] = row.text
        return "skip"

    lines = _tidy(batch.decode(errors="replace").rstrip("\r\n"), delimiter, bad)
    table = csv.read_csv(
        pa.BufferReader(f"{lines}\n".encode()),
        csv.ReadOptions(column_names=header, use_threads=False, block_size=4 * len(batch) + 64),
        csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), include_columns=list(columns)
        ),
    )
    for number, text in sorted(bad.items()):
        if text.strip():
            on_bad_row(BadRow(f"{name}:{lines_before + number}: {text!r:.80} is not a row"))
    texts = lines.split("\n")
    skipped = [number - 1 for number in bad if texts[number - 1]]
    numbers = np.delete(np.arange(len(texts)), skipped)
    filled = np.array([bool(texts[number].strip()) for number in numbers], bool)
    places = lines_before + 1 + numbers[filled]
    return RawRows(name, places, table.filter(pa.array(filled)))


def _tidy(text: str, delimiter: str, bad: dict[int, str]) -> str:
    """Replace comments, and lines with unclosed quotes, by empty lines.

    An unclosed quote would consume the lines after it.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if '"' not in text and "#" not in text:
        return text
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if line.startswith("#"):
            lines[index] = ""
        elif '"' in line and not _closes(line, delimiter):
            lines[index] = ""
            bad[index + 1] = line
    return "\n".join(lines)


def _closes(line: str, delimiter: str) -> bool:
    try:
        next(one_line.reader([line], delimiter=delimiter, strict=True))
    except one_line.Error:
        return False
    return True


def _read_json_lines(
    content: IO[bytes],
    name: str,
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    header: Sequence[str] | None,  # noqa: ARG001 - JSON names its values itself
) -> Iterator[RawRows]:
    lines = ((number, line) for number, line in enumerate(content, start=1) if line.strip())
    while batch := list(islice(lines, BATCH_ROWS)):
        yield rows_of_json(name, batch, columns, on_bad_row)


def rows_of_json(
    origin: str,
    values: Sequence[tuple[int, bytes | None]],
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    stream: int = 0,
) -> RawRows:
    """Return rows of JSON objects, each given with its place; values are text.

    >>> from stream_icd.sources.source import stop_at_bad_row
    >>> event = b'{"t": "2026-01-31T12:00:00Z", "src": 1, "dst": "b"}'
    >>> rows_of_json("topic", [(7, event)], ["src", "dst"], stop_at_bad_row).rows.to_pylist()
    [{'src': '1', 'dst': 'b'}]
    """
    places: list[int] = []
    rows: list[list[str]] = []
    for place, value in values:
        try:
            row = json.loads(value or b"")
            rows.append([_text(row[column]) for column in columns])
            places.append(place)
        except (ValueError, TypeError, KeyError, RecursionError):
            shown = (value or b"")[:80]
            expected = f"an object with {', '.join(columns)}"
            on_bad_row(BadRow(f"{origin}:{place}: {shown!r} is not {expected}"))
    texts = [[row[i] for row in rows] for i in range(len(columns))]
    table = pa.table([pa.array(text, pa.string()) for text in texts], names=list(columns))
    return RawRows(origin, np.array(places, np.int64), table, stream)


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(value)
    text = str(value)
    text.encode()  # JSON can spell what UTF-8 cannot
    return text


def _read_parquet(
    content: IO[bytes],
    name: str,
    columns: Sequence[str],
    on_bad_row: OnBadRow,  # noqa: ARG001 - its values have types
    header: Sequence[str] | None,  # noqa: ARG001 - and its columns names
) -> Iterator[RawRows]:
    file = pq.ParquetFile(content)
    missing = set(columns) - set(file.schema_arrow.names)
    if missing:
        raise BadSettings(
            f"{name} has the columns {', '.join(file.schema_arrow.names)}; expected "
            f"{', '.join(columns)}"
        )
    first = 0
    for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
        table = without_views(pa.Table.from_batches([batch]).select(list(columns)))
        yield RawRows(name, np.arange(first, first + len(table)), table)
        first += len(table)


Read = Callable[[IO[bytes], str, Sequence[str], OnBadRow, Sequence[str] | None], Iterator[RawRows]]
FORMS: Mapping[str, Read] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}


ENDINGS = (".gz", ".bz2")
DAMAGED = (OSError, EOFError, zlib.error, tarfile.TarError)
"""Exceptions that reading a damaged file can raise."""


def uncompressed(file: IO[bytes], name: str) -> IO[bytes]:
    """Return the content of a file: `.gz` and `.bz2` decompressed, other names unchanged."""
    if name.endswith(".gz"):
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    if name.endswith(".bz2"):
        return io.BufferedReader(bz2.BZ2File(file))
    return file


def bare_name(name: str) -> str:
    """Return the name without its compression ending."""
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
