"""Read tables in common formats: CSV, JSON lines, Parquet; in batches, one file or a folder."""

from __future__ import annotations

import codecs
import csv as one_line
import io
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, AnyStr

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.core.node_ids import plain_columns
from stream_icd.core.printable import listed, printable
from stream_icd.sources.content import DAMAGED, OPENERS, Parquet, form_of, uncompressed
from stream_icd.sources.source import OnBadRow, RawRows

_LOG = logging.getLogger(__name__)

TEXTS = (".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".edges", ".edgelist")
"""Endings of texts with a row a line."""

_NO_JSON = (ValueError, RecursionError)
"""Exceptions that reading JSON can raise; the second one, if it is deeply nested."""

_BATCH_CHARACTERS = 4 << 20
_BATCH_ROWS = 1 << 16
LONGEST_LINE = 1 << 20
"""Characters of a line of text, or bytes of a line of JSON. Of 1.5 MB, gzip can make one line of
1.5 GB."""

_DELIMITERS = ("\t", ",", ";", "|", " ")
TIMES = ("t", "time", "timestamp", "ts", "datetime")
_ENDS = (("src", "dst"), ("source", "target"), ("from", "to"))
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMENT = re.compile(r"^[#%]+(\s|$)", re.MULTILINE)
"""Begins a comment, in any line; without a space after it, `#` begins an id, such as a hashtag."""

_SPACES = re.compile(r"^ +| +$|(?<= ) +", re.MULTILINE)
"""Spaces that only align columns."""

MOST_EXACT = 2**53
"""Whole numbers below are exact as float64."""

UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""Replaces bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What is read of each file; see `read_rows`."""

    columns: Sequence[str]
    on_bad_row: OnBadRow
    header: Sequence[str] | None
    way_out: str
    has_title: bool


def read_rows(
    path: Path,
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    *,
    header: Sequence[str] | None = None,
    way_out: str = "",
    has_title: bool = False,
) -> Iterator[RawRows]:
    """Read columns of a file, or of all files in a folder and its subfolders, in name order.

    Names that begin with a dot are ignored; other files that are not read are logged. The name sets
    the format: `TEXTS` (with a header line, unless `header` names the columns; the first line
    determines the separator), `.jsonl`, `.ndjson` or `.parquet`, each also compressed. Lines that
    begin with `#` or `%` and a space are comments. A file may be larger than memory. `way_out` ends
    the error of a missing column. With `has_title`, the first line is no row though there is a
    `header`. Raises `SourceNotFound` if there is no such file; `BadSettings` if the format is
    unknown, or a column is missing.
    """
    files, other_files = _tables_at(path, on_bad_row)
    endings = ", ".join(_READERS)
    if other_files and path.is_dir():
        _LOG.warning(
            "not read in %s: %s. Files are read that are named %s, also compressed (%s)",
            printable(path.name),
            listed([str(file.relative_to(path)) for file in other_files]),
            endings,
            ", ".join(OPENERS),
        )
    if not files:
        if path.exists() and not path.is_dir():
            raise BadSettings(f"{path.name} is none of {endings}")
        raise SourceNotFound(f"nothing at {path}; give a file or a folder of {endings}")
    return _read_files(files, _Request(columns, on_bad_row, header, way_out, has_title))


def _tables_at(path: Path, on_bad_row: OnBadRow) -> tuple[list[Path], list[Path]]:
    """Return the file, or those in a folder and its subfolders, if their format is known; others.

    A link without its file, as on a disk that is not mounted, is refused when it is read.
    """
    files = sorted(_files_below(path, on_bad_row)) if path.is_dir() else [path]
    exists = {file: file.is_file() or (file.is_symlink() and not file.exists()) for file in files}
    tables = [file for file in files if form_of(file.name) in _READERS and exists[file]]
    return tables, sorted(set(files).difference(tables))


def _files_below(folder: Path, on_bad_row: OnBadRow) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        on_bad_row(BadRow(f"the folder {error.filename} cannot be read: {error.strerror}"))

    for at, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = (name for name in folders if name[0] != ".")
        yield from (Path(at, name) for name in names if name[0] != ".")


def _read_files(files: Iterable[Path], request: _Request) -> Iterator[RawRows]:
    for file in files:
        try:
            with file.open("rb") as packed, uncompressed(packed, file.name) as content:
                yield from _READERS[form_of(file.name)](content, file.name, request)
        except MemoryError:
            raise
        except (*DAMAGED, pa.ArrowException) as error:
            request.on_bad_row(
                BadRow(f"{file.name} is damaged; the rest of it was not used: {error}")
            )


def first_rows(path: Path, most: int) -> tuple[list[list[str]], str]:
    """Return the fields of the first lines of a text that are not empty or comments.

    Also returns the separator, which the first one determines. Raises `BadSettings` if the file is
    no text, or a line is no row.
    """
    with path.open("rb") as packed, uncompressed(packed, path.name) as content:
        text = text_of(content)
        _, first = _first_line(text, path.name)
        below = chain([first], _lines(text))
        lines = (line for line in below if line.strip() and not _COMMENT.match(line))
        delimiter = _delimiter_of(first)
        return [_fields(line, delimiter) for line in islice(lines, most)], delimiter


def columns_of(path: Path, header: Sequence[str] | None = None) -> list[str]:
    """Return the columns of a file that `read_rows` reads, or of the first such file in a folder.

    Empty if there is no file, or it is empty or damaged: `read_rows` says so.
    """
    files, _ = _tables_at(path, lambda _: None)
    if not files:
        return []
    file = files[0]
    try:
        reader = _READERS[form_of(file.name)]
        if reader is _read_text:
            return list(header) if header else next(iter(first_rows(file, 1)[0]), [])
        with file.open("rb") as packed, uncompressed(packed, file.name) as content:
            if reader is _read_json_lines:
                return _first_keys(content)
            return list(Parquet(content).schema.names)
    except MemoryError:
        raise
    except (*DAMAGED, pa.ArrowException, ValueError, TypeError):
        return []


def _first_keys(content: IO[bytes]) -> list[str]:
    """Return the keys of the first line that is a JSON object; `read_rows` reports those before."""
    for line in islice(_lines(content), _BATCH_ROWS):
        with suppress(*_NO_JSON):
            if isinstance(row := json.loads(line), dict):
                return list(row)
    return []


def time_column(columns: Sequence[str]) -> str | None:
    """Return the column of event times: `t`, or the only one with a usual name; else None."""
    named = [column for column in columns if column.lower() in TIMES]
    return "t" if "t" in named else named[0] if len(named) == 1 else None


def end_columns(columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of both ends of an edge, by their usual names in any case; else None.

    >>> end_columns(["#source", "target", "t"])  # a header that is written like a comment
    ('#source', 'target')
    """
    by_usual_name = {column.lower().lstrip("#% "): column for column in reversed(columns)}
    pairs = ((by_usual_name.get(src), by_usual_name.get(dst)) for src, dst in _ENDS)
    return next(((src, dst) for src, dst in pairs if src is not None and dst is not None), None)


def check_columns(
    name: str, columns: Sequence[str], needed: Sequence[str], way_out: str = ""
) -> None:
    """Raise `BadSettings` unless a table has each wanted column once."""
    if not set(needed) <= set(columns):
        expected = ", ".join(needed)
        raise BadSettings(f"{name} has the columns {listed(columns)}; expected {expected}{way_out}")
    if doubled := [column for column in needed if columns.count(column) > 1]:
        raise BadSettings(f"{name} has more than one column {doubled[0]!r:.60}: rename the others")


def text_of(content: IO[bytes]) -> io.TextIOWrapper:
    """Return text of UTF-8, or of UTF-16 with its mark; what cannot be decoded is replaced."""
    buffered = io.BufferedReader(content)  # type: ignore[type-var]
    encoding = "utf-16" if buffered.peek(2)[:2] in _UTF_16 else "utf-8-sig"
    return io.TextIOWrapper(buffered, encoding, errors="replace")


def _lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of a file, of a long one the part that `_is_cut`."""
    while line := file.readline(LONGEST_LINE):
        yield line
        if _is_cut(line):
            _skip_line(file)


def _is_cut(line: str | bytes) -> bool:
    return len(line) == LONGEST_LINE and line[-1:] not in ("\n", b"\n")


def _skip_line(file: IO[AnyStr]) -> None:
    """Skip the rest of a line, without holding it in memory."""
    while _is_cut(file.readline(LONGEST_LINE)):
        pass


def _too_long(origin: str, line_number: int) -> BadRow:
    return BadRow(
        f"{origin}:{line_number} is no row: it has more than {LONGEST_LINE:,} characters; write "
        "each row on a line of its own"
    )


def _fields(line: str, delimiter: str) -> list[str]:
    fields = one_line.reader([line.strip(" \n")], delimiter=delimiter, skipinitialspace=True)
    try:
        return [field.strip() for field in next(fields)]
    except one_line.Error as error:
        raise BadSettings(f"the line {line[:40]!r}… is no row of a table: {error}") from error


def _delimiter_of(line: str) -> str:
    """Return the separator of the fields of a line: a comma if it has only one field."""
    return next((delimiter for delimiter in _DELIMITERS if delimiter in line.strip(" \n")), ",")


def _read_text(content: IO[bytes], name: str, request: _Request) -> Iterator[RawRows]:
    text = text_of(content)
    line_number, first = _first_line(text, name)
    if not first:
        return
    delimiter, header = _delimiter_of(first), request.header
    if header is None:
        header = _fields(first, delimiter)
    if request.header is None or request.has_title:
        line_number, first = line_number + 1, ""
    check_columns(name, header, request.columns, request.way_out)
    while batch := first + text.read(_BATCH_CHARACTERS):
        batch += (rest := text.readline(LONGEST_LINE))
        if _is_cut(rest):
            _skip_line(text)
            request.on_bad_row(_too_long(name, line_number + batch.count("\n")))
            batch = batch[: batch.rfind("\n") + 1] + "\n"
        if batch.strip():
            yield _parse(batch, name, line_number, delimiter, replace(request, header=header))
        line_number += batch.count("\n")
        first = ""


def _first_line(text: io.TextIOWrapper, name: str) -> tuple[int, str]:
    """Return number and text of the first line with content; `BadSettings`: the file is no text.

    Passes over empty lines, comments and Excel's name of the separator (`sep=;`).
    """
    for number, line in enumerate(_lines(text), start=1):
        if "\0" in line:
            raise BadSettings(f"{name} is binary, or UTF-16 without its mark: save it as UTF-8")
        if _is_cut(line):
            raise BadSettings(str(_too_long(name, number)))
        if line.strip() and not _COMMENT.match(line) and not line.startswith("sep="):
            return number, line if line.endswith("\n") else line + "\n"
    return 0, ""


def _parse(batch: str, name: str, first_line: int, delimiter: str, request: _Request) -> RawRows:
    """Return the rows of lines; `request.header` is known."""
    bad: dict[int, str] = {}

    # What is raised in here gets lost, so the rows are reported after reading.
    def skip(row: csv.InvalidRow) -> str:
        bad[row.number] = row.text
        return "skip"

    header = request.header or ()
    lines = _tidy(batch.rstrip("\n"), delimiter, bad)
    # With threads, bad rows have no numbers; a line that straddles two blocks would be an error,
    # so there is one, of four bytes a character at most.
    table = csv.read_csv(
        pa.BufferReader(f"{lines}\n".encode()),
        csv.ReadOptions(column_names=header, use_threads=False, block_size=4 * len(batch) + 64),
        csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), include_columns=list(request.columns)
        ),
    )
    for number, text in sorted(bad.items()):
        if text.strip():
            where = f"{name}:{first_line - 1 + number}"
            request.on_bad_row(BadRow(f"{where}: {text!r:.80} is not a row"))
    texts = lines.split("\n")
    skipped = [number - 1 for number in bad if texts[number - 1]]
    numbers = np.delete(np.arange(len(texts)), skipped)
    filled = np.array([bool(texts[number].strip()) for number in numbers], bool)
    trimmed = [pc.utf8_trim_whitespace(column) for column in table.columns]
    # The header again, as in files that were put one after the other; a node may be called `node`.
    titles = zip(table.column_names, trimmed, strict=True)
    again = np.logical_and.reduce([pc.equal(column, title) for title, column in titles])
    again &= len(trimmed) > 1
    for number in numbers[again]:
        request.on_bad_row(BadRow(f"{name}:{first_line + number} is a header, not a row"))
    table = pa.table(trimmed, names=table.column_names)
    used = filled & ~again
    return RawRows(name, first_line + numbers[used], table.filter(pa.array(used)), untyped=True)


def _tidy(text: str, delimiter: str, bad: dict[int, str]) -> str:
    """Replace comments by empty lines, and unclosed quotes, which would consume the lines after.

    A field over several lines is bad, up to the line that closes it: the rest is no row. Spaces
    that align columns, or precede a quote, are removed.
    """
    if delimiter == " " and '"' not in text:
        text = _SPACES.sub("", text)
    if '"' not in text and _COMMENT.search(text) is None:
        return text
    spaced = re.compile(f'(^|{re.escape(delimiter)}) +"')
    closed = re.compile(f'[^"]*(?<!{re.escape(delimiter)})"({re.escape(delimiter)}|$)')
    lines, opened = text.split("\n"), None
    for index, line in enumerate(lines):
        if _COMMENT.match(line):
            lines[index] = ""
        elif '"' in line:
            row = _row(line, delimiter)
            first = index if opened is None or not closed.match(line) else opened
            opened = index if row is None else None
            if row is None or first < index:
                bad |= {at + 1: lines[at] for at in range(first, index + 1) if lines[at]}
                lines[first : index + 1] = [""] * (index + 1 - first)
            elif spaced.search(line):
                lines[index] = delimiter.join('"' + field.replace('"', '""') + '"' for field in row)
    return "\n".join(lines)


def _row(line: str, delimiter: str) -> list[str] | None:
    """Return the fields of a line; None if it does not close its quotes."""
    rows = one_line.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        return next(rows)
    except one_line.Error:
        return None


def _read_json_lines(content: IO[bytes], name: str, request: _Request) -> Iterator[RawRows]:
    batch, size = list[tuple[int, bytes]](), 0
    for number, line in enumerate(_lines(content), start=1):
        if _is_cut(line):
            request.on_bad_row(_too_long(name, number))
        elif line.strip():
            batch.append((number, line))
            size += len(line)
        if len(batch) == _BATCH_ROWS or size > _BATCH_CHARACTERS:
            yield rows_of_json(name, batch, request.columns, request.on_bad_row)
            batch, size = [], 0
    if batch:
        yield rows_of_json(name, batch, request.columns, request.on_bad_row)


def rows_of_json(
    origin: str,
    values: Sequence[tuple[int, bytes | None]],
    columns: Sequence[str],
    on_bad_row: OnBadRow,
    stream: int = 0,
    optional: Collection[str] = (),
) -> RawRows:
    """Return rows of JSON objects, each given with its place; values are text, or empty.

    An object may lack the `optional` columns.

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
            missing = {name: None for name in optional if name not in row}
            rows.append([_text((missing | row)[column]) for column in columns])
            places.append(place)
        except (*_NO_JSON, TypeError, KeyError):
            shown = (value or b"")[:80]
            expected = f"an object with {', '.join(columns)}"
            on_bad_row(BadRow(f"{origin}:{place}: {shown!r} is not {expected}"))
    texts = [[row[i] for row in rows] for i in range(len(columns))]
    table = pa.table([pa.array(text, pa.string()) for text in texts], names=list(columns))
    return RawRows(origin, np.array(places, np.int64), table, stream)


def _text(value: object) -> str:
    """Return a value as text; a missing one (null, NaN) is empty, as in other tables.

    The numbers 1.0 and 1 are the same in JSON: pandas writes integers so beside missing ones.
    """
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < MOST_EXACT:
        value = int(value)
    text = str(value)
    text.encode()  # JSON can spell what UTF-8 cannot
    return text


def _read_parquet(content: IO[bytes], name: str, request: _Request) -> Iterator[RawRows]:
    first, parquet = 0, Parquet(content)
    check_columns(name, parquet.schema.names, request.columns, request.way_out)
    for part in parquet.parts(request.columns):
        table = plain_columns(part)
        yield RawRows(name, np.arange(first, first + len(table)), table)
        first += len(table)


_READERS: Mapping[str, Callable[[IO[bytes], str, _Request], Iterator[RawRows]]] = {
    **dict.fromkeys(TEXTS, _read_text),
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
}
