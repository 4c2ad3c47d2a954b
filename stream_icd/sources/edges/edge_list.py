"""Read one file of edges in a common graph format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_icd.errors import BadInput, BadRow, BadSettings, NoGoodRows
from stream_icd.node_ids import without_views
from stream_icd.sources.source import OnBadRow
from stream_icd.sources.tables.column_checks import (
    are_times,
    dividing_column,
    refuse_events,
    refuse_labels,
    refuse_what_is_no_edge_list,
    time_column,
)
from stream_icd.sources.tables.tables import (
    DAMAGED,
    RawRows,
    bare_name,
    first_fields,
    read_rows,
    uncompressed,
)
from stream_icd.sources.tables.values import IdKind, kind_of_ids, read_ids, read_numbers

TEXTS = (".csv", ".tsv", ".txt")
ARROW_FILES = (".arrow", ".feather", ".ipc")
ARROW_STREAM = ".arrows"
FORMS = (*TEXTS, *ARROW_FILES, ".parquet", ARROW_STREAM, ".graphml")
ENDS = (("src", "dst"), ("source", "target"), ("from", "to"))


def is_edge_list(file: Path) -> bool:
    """Whether the file name has a known format."""
    return Path(bare_name(file.name)).suffix.lower() in FORMS


def read_edge_list(file: Path, id_kind: IdKind, on_bad_row: OnBadRow) -> pa.Table:
    """Read columns `src`, `dst` and, if the file has it, `weight`.

    An edge without `dst` declares the node `src`. All ids have one type: `id_kind`, or that of the
    first id.

    Raises:
        NoGoodRows: the file is empty.
        BadInput: the file as a whole cannot be read, or holds events.
    """
    try:
        batches = list(_raw(file, on_bad_row))
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


def _raw(file: Path, on_bad_row: OnBadRow) -> Iterator[RawRows]:
    form = Path(bare_name(file.name)).suffix.lower()
    if form in TEXTS:
        yield from _raw_text(file, on_bad_row)
        return
    with file.open("rb") as packed, uncompressed(packed, file.name) as content:
        if form == ".graphml":
            table = _graphml(content)
        elif form == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(content)
        else:
            opens = pa.ipc.open_stream if form == ARROW_STREAM else pa.ipc.open_file
            table = opens(content.read()).read_all()
    table = without_views(table)
    _refuse_named_events([table], table.column_names, file.parent)
    yield RawRows(file.name, np.arange(len(table)), _named(table))


def _raw_text(file: Path, on_bad_row: OnBadRow) -> Iterator[RawRows]:
    """Read text with a header that names the ends; without one, use the first two columns."""
    fields = first_fields(file)
    ends = _ends(fields)
    header = None
    if ends:
        time = dividing_column(fields)
        columns = [*ends, *_weight_column(fields), *([] if time is None else [time])]
    else:
        refuse_labels(fields)
        columns = header = ["src", "dst", *(f"more{i}" for i in range(2, len(fields)))]
    batches = list(read_rows(file, columns, on_bad_row, header=header))
    tables = [batch.rows for batch in batches]
    if header is None:
        _refuse_named_events(tables, fields, file.parent)
    else:
        refuse_what_is_no_edge_list(tables)
        _refuse_events_without_names(tables, header, file.parent)
    for batch in batches:
        yield RawRows(batch.origin, batch.place, _named(batch.rows))


def _refuse_named_events(tables: Sequence[pa.Table], columns: Sequence[str], folder: Path) -> None:
    time = dividing_column(columns)
    if not tables or time is None:
        return
    ends = _ends(columns) or ENDS[0]
    options = {} if ends == ENDS[0] else {"src": ends[0], "dst": ends[1]}
    if time != time_column(columns):
        options |= {"time": time, "sort": "yes"}
    for weight in _weight_column(columns):
        options["weight"] = weight
    times = pa.concat_tables([table.select([time]) for table in tables])[time]
    refuse_events(times, f"column {time}", options, folder)


def _refuse_events_without_names(
    tables: Sequence[pa.Table], header: Sequence[str], folder: Path
) -> None:
    rows = pa.concat_tables(tables) if tables else None
    for number, name in enumerate(header[2:], start=3):
        if rows is not None and are_times(rows[name]):
            columns = ",".join("t" if one == name else one for one in header)
            refuse_events(rows[name], f"column {number}", {"columns": columns}, folder)


def _ends(columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns that hold the ends of edges; names are case-insensitive."""
    given = {column.lower(): column for column in columns}
    return next(((given[a], given[b]) for a, b in ENDS if {a, b} <= given.keys()), None)


def _weight_column(columns: Sequence[str]) -> list[str]:
    return [column for column in columns if column.lower() == "weight"][:1]


def _named(table: pa.Table) -> pa.Table:
    ends = _ends(table.column_names)
    if ends is None:
        refuse_labels(table.column_names)
        raise BadInput(
            f"it has the columns {', '.join(table.column_names)}; expected src, dst and "
            "optionally weight"
        )
    names = {"src": ends[0], "dst": ends[1]}
    for weight in _weight_column(table.column_names):
        names["weight"] = weight
    return pa.table({ours: table[theirs] for ours, theirs in names.items()})


def _checked(batch: RawRows, kind: IdKind, on_bad_row: OnBadRow) -> pa.Table:
    src, good = read_ids(batch.rows["src"], kind)
    dst, there = read_ids(batch.rows["dst"], kind)
    nobody = _is_absent(batch.rows["dst"])
    good = good & (there | nobody)
    columns = {"src": src, "dst": pc.if_else(pa.array(nobody), None, dst) if nobody.any() else dst}
    if "weight" in batch.rows.column_names:
        weights, positive = read_numbers(batch.rows["weight"], lambda given: given > 0)
        good = good & (positive | nobody)
        columns["weight"] = pa.array(weights, pa.float64())
    for index in np.flatnonzero(~good):
        values = batch.rows.slice(int(index), 1).to_pylist()[0]
        shown = ", ".join(f"{name} {value!r:.40}" for name, value in values.items())
        on_bad_row(BadRow(f"{batch.origin}:{batch.place[index]}: {shown} is not an edge"))
    table = pa.table(columns)
    return table if good.all() else table.filter(pa.array(good))


def _is_absent(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return where a value is absent: null or empty text."""
    absent = column.is_null()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        absent = pc.or_(absent, pc.fill_null(pc.equal(column, ""), False))
    found: NDArray[np.bool_] = absent.to_numpy()
    return found


def _graphml(content: IO[bytes]) -> pa.Table:
    """Read nodes, edges and the edge attribute `weight` of the first graph."""
    text = content.read()
    _refuse_entities(text)
    src: list[str | None] = []
    dst: list[str | None] = []
    weights: list[str | None] = []
    weight_key = None
    for element in ElementTree.fromstring(text).iter():
        match element.tag.rpartition("}")[2]:
            case "key" if element.get("attr.name") == "weight" and element.get("for") == "edge":
                weight_key = element.get("id")
            case "node":
                src.append(element.get("id"))
                dst.append(None)
                weights.append(None)
            case "edge":
                src.append(element.get("source"))
                dst.append(element.get("target"))
                weights.append(_weight(element, weight_key))
    columns = {"src": pa.array(src, pa.string()), "dst": pa.array(dst, pa.string())}
    if weight_key is not None:
        columns["weight"] = pa.array(weights, pa.string())
    return pa.table(columns)


def _refuse_entities(text: bytes) -> None:
    """Refuse XML that defines entities, in any encoding that the parser reads.

    Raises:
        BadInput: it does, and nothing was expanded; or its encoding is unknown.
        expat.ExpatError: it is no XML.
    """
    parser = expat.ParserCreate()
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(text, True)
    except (LookupError, ValueError) as error:
        raise BadInput(f"its XML has an encoding that cannot be read: {error}") from error


def _refuse_entity(*_: object) -> None:
    raise BadInput("its XML defines entities, which can expand without limit: remove them")


def _weight(edge: ElementTree.Element, key: str | None) -> str | None:
    if key is None:
        return None
    found = (data.text for data in edge if data.get("key") == key)
    return next(found, "1")
