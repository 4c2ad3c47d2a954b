"""Read one file of edges in a common graph format, and refuse files that only look like one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import IO, TypeVar
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from flatbuffers import number_types
from flatbuffers.table import Table as FlatTable

from stream_icd.core.errors import BadInput, BadRow, BadSettings, LimitExceeded, NoGoodRows
from stream_icd.core.node_ids import is_text, plain_columns
from stream_icd.sources.content import DAMAGED, Parquet, form_of, uncompressed
from stream_icd.sources.graphml import SettleNames, read_graphml
from stream_icd.sources.headerless import EXPECTED, headerless_edges
from stream_icd.sources.numbered_graphs import FORMATS, numbered_graph
from stream_icd.sources.source import OnBadRow, OnIgnored, RawRows
from stream_icd.sources.tables import (
    LONGEST_LINE,
    TEXTS,
    TIMES,
    check_columns,
    end_columns,
    first_rows,
    read_rows,
    text_of,
    time_column,
)
from stream_icd.sources.values import IdForm, IdKind, KindBefore, Mask, read_numbers, shown_value
from stream_icd.wire.arrow_stream import announced
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import refusing

_ARROW = (".arrow", ".feather", ".ipc", ".arrows")
FORMS = (*TEXTS, ".parquet", *_ARROW, ".graphml", *FORMATS)
_LABELS = {"class", "cluster", "communities", "community", "group", "label", "labels", "membership"}
_SNAPSHOT = "snapshot"
_NO_WEIGHT = "has no column named weight, so all edges weigh 1: not used are %s"
_NOT_USED = "has columns that are not used: %s"
_MIXED = "has numbers and other ids in one column, so all its ids are text (--ids): one is %s"
_FORMAT = "is read as a graph in the format of %s, which its first line shows"

_START = 1 << 16
"""Number of characters that show the format of a text."""

_OTHER_CONTENT = {
    r"version https://git-lfs": "a pointer of Git LFS, not the file itself: run `git lfs pull`",
    r"\S*/annex/objects/": "a pointer of git-annex, not the file itself: run `git annex get`",
    r"<(!|\?|html|head|body|graphml|gexf|error|svg)": "HTML or XML",
    r"\{\s*\"|\[\s*[\[{\"]": "JSON",
    r"(creator[^\n]*\n\s*)?graph\s*\[": "GML: save GraphML instead",
    r"(strict\s+)?(di)?graph\b[^\n]*\{": "a drawing for Graphviz (DOT): save GraphML instead",
    r"[45]\d\d: ": "an error of a server",
    r"dl\s+n(r|c)?\s*=": "a matrix of UCINET (DL)",
    r"%PDF-|%!PS": "a document to print",
    r"BZh\d1AY|PK\x03\x04|\x1f\ufffd|\(\ufffd/\ufffd|\ufffd7zXZ": "compressed, so its name needs "
    "that ending",
}
"""How other content begins, and what it is."""

_Batch = TypeVar("_Batch", RawRows, pa.Table)


def read_edge_list(
    file: Path,
    id_kind: IdKind,
    on_bad_row: OnBadRow,
    on_ignored: OnIgnored,
    limits: Limits,
    settle: SettleNames,
    kind_before: KindBefore = lambda: "auto",
) -> pa.Table:
    """Read columns `src`, `dst` and, if the file has it, `weight`.

    An edge without `dst` declares the node `src`. All ids have one type: `id_kind`, or if it is
    `auto`, the graph's `kind_before`, or else the one that holds all ids of the file. Columns that
    are not used go to `on_ignored`; `settle` decides what names the nodes of GraphML. Raises
    `NoGoodRows` if the file is empty; `LimitExceeded` as soon as more was read than a snapshot may
    have; `BadInput` if it cannot be read, holds events, or has only bad rows.
    """
    n_bad, first_bad = 0, ""

    def note(error: BadRow) -> None:
        nonlocal n_bad, first_bad
        on_bad_row(error)
        n_bad, first_bad = n_bad + 1, first_bad or str(error)

    try:
        batches = list(_raw(file, note, on_ignored, limits, settle))
    except BadSettings as error:
        raise BadInput(str(error)) from error
    except MemoryError:
        raise
    except (*DAMAGED, pa.ArrowException, expat.ExpatError, ElementTree.ParseError) as error:
        raise BadInput(
            f"it is damaged, or has another format than its name says: {error}"
        ) from error
    edges = list[pa.Table]()
    if any(len(batch.rows) for batch in batches):
        form = IdForm(id_kind)
        if id_kind == "auto":
            table = pa.concat_tables([batch.rows for batch in batches])
            ends = {end: table[end] for end in ("src", "dst")}
            form = IdForm.of(ends, kind_before, untyped=batches[0].untyped)
            if form.odd is not None:
                on_ignored(_MIXED, form.odd)
        edges = [_checked(batch, form, note) for batch in batches]
    if any(map(len, edges)):
        return pa.concat_tables(edges)
    if n_bad:
        raise BadInput(f"it has no good row and {n_bad:,} bad ones; the first: {first_bad}")
    raise NoGoodRows("it is empty")


def _raw(
    file: Path, on_bad_row: OnBadRow, on_ignored: OnIgnored, limits: Limits, settle: SettleNames
) -> Iterator[RawRows]:
    form = form_of(file.name)
    if form in (*TEXTS, *FORMATS):
        yield from _raw_text(file, form, on_bad_row, on_ignored, limits)
        return
    with file.open("rb") as packed, uncompressed(packed, file.name) as content:
        if form == ".parquet":
            parquet = Parquet(content)
            columns = list(parquet.schema.names)
            check_columns("it", columns, columns)
            used = _used(columns)
            empty = parquet.schema.empty_table().select(used)
            parts = chain([empty], parquet.parts(used))
            table = pa.concat_tables(_within(map(plain_columns, parts), limits))
        elif form == ".graphml":
            table = read_graphml(_whole(content, limits), settle, on_ignored)
            columns = table.column_names
        else:
            table = plain_columns(_arrow_table(content, limits))
            columns = table.column_names
            check_columns("it", columns, columns)
    _refuse_events(table, columns, file.parent)
    untyped = form == ".graphml"
    yield RawRows(file.name, np.arange(len(table)), _named(table), untyped=untyped)
    _say_unused(columns, on_ignored)


@dataclass(slots=True)
class _Size:
    """What was read of a snapshot so far."""

    limits: Limits
    rows: int = 0
    decoded_bytes: int = 0

    def add(self, n_rows: int, n_bytes: int) -> None:
        """Raise `LimitExceeded` as soon as there is too much."""
        self.rows, self.decoded_bytes = self.rows + n_rows, self.decoded_bytes + n_bytes
        for unit, name in (("rows", "rows"), ("bytes", "decoded_bytes")):
            if getattr(self, name) > (most := getattr(self.limits, name)):
                raise LimitExceeded(
                    f"it has more than {most:,} {unit}, the limit of a snapshot: divide it into "
                    f"several files, or set STREAM_ICD_LIMITS_{name.upper()}, here and for all "
                    "readers"
                )


def _whole(content: IO[bytes], limits: Limits) -> bytes:
    """Return a file that cannot be read in parts; raise `LimitExceeded` if it is too large."""
    value = content.read(limits.decoded_bytes + 1)  # one more, which is seen to be too much
    _Size(limits).add(0, len(value))
    return value


def _within(batches: Iterable[_Batch], limits: Limits) -> Iterator[_Batch]:
    """Yield the batches of a snapshot; raise `LimitExceeded` when they are too large together."""
    size = _Size(limits)
    for batch in batches:
        table = batch.rows if isinstance(batch, RawRows) else batch
        size.add(len(table), table.nbytes)
        yield batch


def _arrow_table(content: IO[bytes], limits: Limits) -> pa.Table:
    """Read an Arrow stream or file, after a look at the sizes that its batches announce.

    Programs write both under the same names; a file begins with ARROW1. Raises `LimitExceeded`, or
    `BadInput` if it is damaged.
    """
    value = pa.py_buffer(_whole(content, limits))
    is_stream = value[:6].to_pybytes() != b"ARROW1"
    with refusing(BadInput, "it is damaged, or has another format than its name says"):
        # Before Arrow decompresses anything: it allocates what a buffer says that it needs.
        size = _Size(limits)
        for message in _messages(value, is_stream):
            if message.type != "schema":
                n_rows, n_bytes = announced(message, BadInput)
                size.add(n_rows, n_bytes)
        return (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(value).read_all()


def _messages(value: pa.Buffer, is_stream: bool) -> Iterator[pa.ipc.Message]:
    """Yield the messages of a stream, or those that the footer of a file names.

    The footer is a flatbuffer of Arrow's File.fbs, before its length, an int32, and ARROW1.
    Footer.dictionaries and .recordBatches are fields 2 and 3; a Block has 24 bytes, and begins with
    the offset of a message, an int64.
    """
    if is_stream:
        yield from pa.ipc.MessageReader.open_stream(value)
        return
    pa.ipc.open_file(value)  # raises if the footer is none
    end = len(value) - 10
    footer = memoryview(value)[end - int.from_bytes(value[end : end + 4], "little") : end]
    root = FlatTable(footer, int.from_bytes(footer[:4], "little"))
    for field in (8, 10):
        blocks = root.Offset(field)
        for index in range(root.VectorLen(blocks) if blocks else 0):
            at = root.Get(number_types.Int64Flags, root.Vector(blocks) + 24 * index)
            yield pa.ipc.read_message(value.slice(at))


def _used(columns: Sequence[str]) -> list[str]:
    """Return the columns of an edge list, and the one that would divide it; all if it is none."""
    time = _dividing_column(columns)
    names = [*_names(columns).values(), *([] if time is None else [time])]
    return list(dict.fromkeys(names)) or list(columns)


def _raw_text(
    file: Path, form: str, on_bad_row: OnBadRow, on_ignored: OnIgnored, limits: Limits
) -> Iterator[RawRows]:
    """Read text in the format of its ending, or in one that its first line shows, or as rows."""
    if not (start := _start(file)).strip():
        return
    for pattern, content_kind in _OTHER_CONTENT.items():
        if re.match(rf"\s*(?:{pattern})", start, re.IGNORECASE):
            raise BadInput(f"it is {content_kind}; {EXPECTED}")

    def content() -> bytes:
        with file.open("rb") as packed, uncompressed(packed, file.name) as unpacked:
            return _whole(unpacked, limits)

    graph = numbered_graph(form, start, content, file.name, on_bad_row, on_ignored)
    if graph is None:
        yield from _raw_rows(file, on_bad_row, on_ignored, limits)
        return
    format_name, rows = graph
    yield rows
    if form in TEXTS:
        on_ignored(_FORMAT, format_name)


def _start(file: Path) -> str:
    """Return the first characters of a text, up to the end of a line."""
    with file.open("rb") as packed, uncompressed(packed, file.name) as content:
        text = text_of(content)
        return text.read(_START) + text.readline(LONGEST_LINE)


def _raw_rows(
    file: Path, on_bad_row: OnBadRow, on_ignored: OnIgnored, limits: Limits
) -> Iterator[RawRows]:
    """Read rows with a header that names the ends; without one, use the first two columns."""
    lines, delimiter = first_rows(file, 20)
    if not lines:
        return
    fields = lines[0]

    def read(
        columns: Sequence[str], header: Sequence[str] | None = None, has_title: bool = False
    ) -> list[RawRows]:
        rows = read_rows(file, columns, on_bad_row, header=header, has_title=has_title)
        return list(_within(rows, limits))

    if names := _names(fields):
        batches = read(_used(fields))
        if any(len(batch.rows) for batch in batches):
            _refuse_events(pa.concat_tables([batch.rows for batch in batches]), fields, file.parent)
    else:
        _refuse_labels(fields)
        batches = headerless_edges(
            lines,
            delimiter,
            lambda names, has_title: read(names, names, has_title),
            on_ignored,
            partial(_refuse_times, file.parent),
        )
    yield from (replace(batch, rows=_named(batch.rows)) for batch in batches)
    if names:
        _say_unused(fields, on_ignored)


def _say_unused(columns: Sequence[str], on_ignored: OnIgnored) -> None:
    """Say which columns are not used, and apart those that may be meant as weights."""
    names, time = _names(columns), _dividing_column(columns)
    unused: dict[str, list[str]] = {_NO_WEIGHT: [], _NOT_USED: []}
    for column in columns:
        if column not in names.values():
            text = _NOT_USED if "weight" in names or column == time else _NO_WEIGHT
            unused[text].append(column or "one without a name")
    for text, names_unused in unused.items():
        if names_unused:
            on_ignored(text, names_unused)


def _names(columns: Sequence[str]) -> dict[str, str]:
    """Return which column is `src`, `dst` and perhaps `weight`, in any case; empty: none is."""
    if (ends := end_columns(columns)) is None:
        return {}
    weight = next((column for column in columns if column.lower() == "weight"), None)
    return {"src": ends[0], "dst": ends[1], **({} if weight is None else {"weight": weight})}


def _named(table: pa.Table) -> pa.Table:
    names = _names(table.column_names)
    if not names:
        _refuse_labels(table.column_names)
        raise BadInput(
            f"it has the columns {', '.join(table.column_names)}; expected src, dst and "
            "optionally weight"
        )
    return pa.table({name: table[column] for name, column in names.items()})


def _checked(batch: RawRows, ids: IdForm, on_bad_row: OnBadRow) -> pa.Table:
    src, starts = ids.read(batch.rows["src"], "src")
    dst, ends = ids.read(batch.rows["dst"], "dst")
    nobody = _is_absent(batch.rows["dst"])
    named = good = starts & (ends | nobody)
    columns = {"src": src, "dst": pc.if_else(pa.array(nobody), None, dst) if nobody.any() else dst}
    if "weight" in batch.rows.column_names:
        weights, positive = read_numbers(batch.rows["weight"], lambda weight: weight > 0)
        good = good & (positive | nobody)
        columns["weight"] = pa.array(weights, pa.float64())
    for index in np.flatnonzero(~good):
        row = {name: batch.rows[name][int(index)] for name in batch.rows.column_names}
        edge = ", ".join(f"{name} {shown_value(value)!r:.40}" for name, value in row.items())
        why = (
            "its weight is no finite number above 0"
            if named[index]
            else f"an id is {ids.fault(row['dst' if starts[index] else 'src'])}"
        )
        on_bad_row(BadRow(f"{batch.origin}:{batch.place[index]}: {edge} is not an edge: {why}"))
    table = pa.table(columns)
    return table if good.all() else table.filter(pa.array(good))


def _is_absent(column: pa.ChunkedArray) -> Mask:
    """Return where a value is null or empty text."""
    absent: Mask = column.is_null().to_numpy()
    if is_text(column.type):
        absent = absent | pc.fill_null(pc.equal(column, ""), False).to_numpy()
    return absent


def _refuse_labels(columns: Sequence[str]) -> None:
    """Refuse a table whose column names show that it holds communities."""
    for column in columns:
        if column.strip().lower() in _LABELS:
            raise BadInput(
                f"column {column} says that this is a table of labels, not of edges; {EXPECTED}"
            )


def _dividing_column(columns: Sequence[str]) -> str | None:
    """Return the column that would divide an edge list into several graphs, if any."""
    lower = {column.lower(): column for column in reversed(columns)}
    usual = (lower.get(name) for name in (*TIMES, "window_start", _SNAPSHOT))
    return next(filter(None, (time_column(columns), *usual)), None)


def _refuse_events(rows: pa.Table, columns: Sequence[str], folder: Path) -> None:
    """Refuse pairs with different times, if one of all columns of the file is named so."""
    time = _dividing_column(columns)
    if time is None:
        return
    weight, options = _names(columns).get("weight"), dict[str, str]()
    if time != time_column(columns):
        options |= {"time": time, "sort": "yes"}
    if weight is not None and not _is_absent(rows[weight]).all():  # as in an export of an archive
        options["weight"] = weight
    _refuse_times(folder, rows[time], f"column {time}", options)


def _refuse_times(
    folder: Path, times: pa.ChunkedArray, where: str, options: Mapping[str, str]
) -> None:
    """Refuse different times, with the commands and their options that read a table as events."""
    if (n_different := len(times.unique())) < 2:
        return
    if where.lower().endswith(_SNAPSHOT):
        raise BadInput(f"{where} names {n_different:,} graphs: write each to a file of its own")
    sent = "".join(f" --{name} {value}".removesuffix(" yes") for name, value in options.items())
    learned = "".join(f",{name}={value.replace(',', ';')}" for name, value in options.items())
    raise BadInput(
        f"{where} holds times: these are events, not one graph. Send them with `stream-icd produce "
        f"events {quote(str(folder))} --window 1d{sent}`, or learn from them with --data "
        f"{quote(f'events:path={folder},window=1d{learned}')}. For one graph, leave the times out"
    )
