"""Read one file of edges in a common graph format, and refuse files that only look like one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.core.errors import BadInput, BadRow, BadSettings, NoGoodRows
from stream_icd.core.node_ids import is_text, plain_columns
from stream_icd.core.printable import listed
from stream_icd.sources.graphml import SettleNames, read_graphml
from stream_icd.sources.source import OnBadRow, OnIgnored
from stream_icd.sources.tables import (
    DAMAGED,
    TIMES,
    RawRows,
    check_columns,
    end_columns,
    first_fields,
    form_of,
    read_rows,
    time_column,
    uncompressed,
)
from stream_icd.sources.values import (
    INTEGER,
    IdKind,
    Mask,
    kind_of_ids,
    read_ids,
    read_numbers,
    shown,
    wrong_with_id,
)

TEXTS = (".csv", ".tsv", ".txt")
ARROW_STREAM = ".arrows"
FORMS = (*TEXTS, ".arrow", ".feather", ".ipc", ".parquet", ARROW_STREAM, ".graphml")
HEADER = {"src", "dst", "source", "target", "weight"}
"""Names of columns that are hardly ids in the first line of a text without a header."""
LABELS = {"class", "cluster", "communities", "community", "group", "label", "labels", "membership"}
SNAPSHOT = "snapshot"
EXPECTED = "an edge list has the columns src, dst and perhaps weight"
TIME = r"^([0-9]{9,10}|[0-9]{13})(\.[0-9]*)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:.*)?$"
"""Seconds or milliseconds since 1970, from 1973 on, or ISO 8601."""

NO_HEADER = (
    "has no header: only columns 1 and 2 are used, not %s; for weights, write the header "
    "src,dst,weight"
)
NO_WEIGHT = "has no column named weight, so all edges weigh 1: not used are %s"
NOT_USED = "has columns that are not used: %s"

FRACTION = r"^[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
A_FEW = 3


def is_edge_list(file: Path) -> bool:
    """Whether the file name has a known format."""
    return form_of(file.name) in FORMS


def read_edge_list(
    file: Path,
    id_kind: IdKind,
    on_bad_row: OnBadRow,
    on_ignored: OnIgnored,
    settle: SettleNames,
) -> pa.Table:
    """Read columns `src`, `dst` and, if the file has it, `weight`.

    An edge without `dst` declares the node `src`. All ids have one type: `id_kind`, or that of the
    first id. Columns that are not used go to `on_ignored`; `settle` decides what names the nodes of
    GraphML.

    Raises:
        NoGoodRows: the file is empty.
        BadInput: the file as a whole cannot be read, or holds events.
    """
    try:
        batches = list(_raw(file, on_bad_row, on_ignored, settle))
    except BadSettings as error:
        raise BadInput(str(error)) from error
    except MemoryError:
        raise
    except (*DAMAGED, pa.ArrowException, expat.ExpatError, ElementTree.ParseError) as error:
        raise BadInput(
            f"it is damaged, or has another format than its name says: {error}"
        ) from error
    if not any(len(batch.rows) for batch in batches):
        raise NoGoodRows("it is empty")
    kind = kind_of_ids(batches[0].rows["src"]) if id_kind == "auto" else id_kind
    return pa.concat_tables([_checked(batch, kind, on_bad_row) for batch in batches])


def _raw(
    file: Path, on_bad_row: OnBadRow, on_ignored: OnIgnored, settle: SettleNames
) -> Iterator[RawRows]:
    form = form_of(file.name)
    if form in TEXTS:
        yield from _raw_text(file, on_bad_row, on_ignored)
        return
    with file.open("rb") as packed, uncompressed(packed, file.name) as content:
        if form == ".graphml":
            table = read_graphml(content.read(), settle, on_ignored)
        elif form == ".parquet":
            import pyarrow.parquet as pq

            table = pq.ParquetFile(content).read()
        else:
            opens = pa.ipc.open_stream if form == ARROW_STREAM else pa.ipc.open_file
            try:
                table = opens(content.read()).read_all()
            except pa.ArrowMemoryError as error:  # a damaged length asks for any amount
                raise BadInput(f"it is damaged, or larger than the memory: {error}") from error
    check_columns("it", table.column_names, table.column_names)
    table = plain_columns(table)
    _refuse_events(table, table.column_names, file.parent)
    yield RawRows(file.name, np.arange(len(table)), _named(table))
    _say_unused(table.column_names, on_ignored)


def _raw_text(file: Path, on_bad_row: OnBadRow, on_ignored: OnIgnored) -> Iterator[RawRows]:
    """Read text with a header that names the ends; without one, use the first two columns."""
    fields = first_fields(file)
    names = _names(fields)
    header = None
    if names:
        time = _dividing_column(fields)
        columns = [*names.values(), *([] if time is None else [time])]
    else:
        _refuse_labels(fields)
        index = fields[:1] == [""]  # which pandas writes without a name
        if index or HEADER.intersection(field.lower() for field in fields):
            raise BadInput(f"its first line ({listed(fields)}) looks like a header; {EXPECTED}")
        columns = header = ["src", "dst", *(f"more{i}" for i in range(2, len(fields)))]
    batches = list(read_rows(file, columns, on_bad_row, header=header))
    if any(len(batch.rows) for batch in batches):
        rows = pa.concat_tables([batch.rows for batch in batches])
        if header is None:
            _refuse_events(rows, fields, file.parent)
        else:
            _refuse_what_is_no_edge_list(rows)
            _refuse_events_without_names(rows, file.parent)
            further = enumerate(rows.columns[2:], start=3)
            if filled := [number for number, column in further if not _is_absent(column).all()]:
                on_ignored(NO_HEADER, list(map(str, filled)))
    for batch in batches:
        yield RawRows(batch.origin, batch.place, _named(batch.rows))
    if header is None:
        _say_unused(fields, on_ignored)


def _say_unused(columns: Sequence[str], on_ignored: OnIgnored) -> None:
    """Say which columns are not used, and apart those that may be meant as weights."""
    names, time = _names(columns), _dividing_column(columns)
    unused: dict[str, list[str]] = {NO_WEIGHT: [], NOT_USED: []}
    for column in columns:
        if column not in names.values():
            text = NOT_USED if "weight" in names or column == time else NO_WEIGHT
            unused[text].append(column or "one without a name")
    for text, some in unused.items():
        if some:
            on_ignored(text, some)


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
    return pa.table({ours: table[theirs] for ours, theirs in names.items()})


def _checked(batch: RawRows, kind: IdKind, on_bad_row: OnBadRow) -> pa.Table:
    src, good = read_ids(batch.rows["src"], kind)
    dst, there = read_ids(batch.rows["dst"], kind)
    nobody = _is_absent(batch.rows["dst"])
    named = good = good & (there | nobody)
    columns = {"src": src, "dst": pc.if_else(pa.array(nobody), None, dst) if nobody.any() else dst}
    if "weight" in batch.rows.column_names:
        weights, positive = read_numbers(batch.rows["weight"], lambda given: given > 0)
        good = good & (positive | nobody)
        columns["weight"] = pa.array(weights, pa.float64())
    for index in np.flatnonzero(~good):
        row = zip(batch.rows.column_names, batch.rows.columns, strict=True)
        edge = ", ".join(f"{name} {shown(column[int(index)])!r:.40}" for name, column in row)
        why = (
            "its weight is no finite number above 0"
            if named[index]
            else f"an id is {wrong_with_id(kind, *batch.rows.schema.types[:2])}"
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
        if column.strip().lower() in LABELS:
            raise BadInput(
                f"column {column} says that this is a table of labels, not of edges; {EXPECTED}"
            )


def _dividing_column(columns: Sequence[str]) -> str | None:
    """Return the column that would divide an edge list into several graphs, if any."""
    lower = {column.lower(): column for column in reversed(columns)}
    usual = (lower.get(name) for name in (*TIMES, "window_start", SNAPSHOT))
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
    _refuse_times(rows[time], f"column {time}", options, folder)


def _refuse_events_without_names(rows: pa.Table, folder: Path) -> None:
    """Refuse pairs with different times, if a column without a name has the form of times."""
    for number, name in enumerate(rows.column_names[2:], start=3):
        if _all_match(rows[name], TIME):
            columns = ",".join("t" if other == name else other for other in rows.column_names)
            _refuse_times(rows[name], f"column {number}", {"columns": columns}, folder)


def _refuse_times(
    times: pa.ChunkedArray, where: str, options: Mapping[str, str], folder: Path
) -> None:
    """Refuse different times, with the commands and their options that read a table as events."""
    if (n_different := len(times.unique())) < 2:
        return
    if where.lower().endswith(SNAPSHOT):
        raise BadInput(f"{where} names {n_different:,} graphs: write each to a file of its own")
    sent = "".join(f" --{name} {value}".removesuffix(" yes") for name, value in options.items())
    learned = "".join(f",{name}={value.replace(',', ';')}" for name, value in options.items())
    raise BadInput(
        f"{where} holds times: these are events, not one graph. Send them with `stream-icd produce "
        f"events {quote(str(folder))} --window 1d{sent}`, or learn from them with --data "
        f"{quote(f'events:path={folder},window=1d{learned}')}. For one graph, leave the times out"
    )


def _refuse_what_is_no_edge_list(rows: pa.Table) -> None:
    """Refuse unnamed columns that hold fractions, a header, or the same value in each row."""
    ends = [rows["src"], rows["dst"]]
    for number, end in enumerate(ends, start=1):
        if _all_match(end, FRACTION):
            raise BadInput(f"column {number} holds fractions, not ids of nodes; {EXPECTED}")
    first, rest = ([end.slice(*part) for end in ends] for part in ((0, 1), (1,)))
    numbers_follow = len(rest[0]) and all(_all_match(end, INTEGER) for end in rest)
    if numbers_follow and not any(_all_match(end, INTEGER) for end in first):
        names = ", ".join(str(end[0]) for end in first)
        raise BadInput(f"the first line ({names}) is a header without columns of edges; {EXPECTED}")
    distinct = [len(end.unique()) for end in ends]
    for number, (here, there) in enumerate((distinct, distinct[::-1]), start=1):
        if here == 1 and there >= A_FEW:
            raise BadInput(
                f"column {number} holds {ends[number - 1][0]} in each row: is it a label? If these "
                "are edges to one node, name the columns in a first line: src,dst"
            )


def _all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())
