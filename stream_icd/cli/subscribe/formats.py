"""How what is followed is written: a table, JSON lines, an Arrow stream, or Parquet files."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import pyarrow as pa

from stream_icd.cli.subscribe.shapes import Shape
from stream_icd.errors import BadSettings, StoreUnwritable, StreamIcdError
from stream_icd.node_ids import in_schema
from stream_icd.printable import say
from stream_icd.spreadsheet import safe_cells
from stream_icd.store.whole_file import make_folder, whole_file
from stream_icd.times import parse_utc

Item = TypeVar("Item")
MOST_NAME = 200
"""Bytes of a file's name; file systems take 255."""


def parse_start(text: str) -> Literal["beginning", "latest"] | datetime:
    """`beginning`, `latest`, or a time; a time without a zone is taken for UTC.

    Raises:
        BadSettings: it is none of these.
    """
    if text == "beginning":
        return "beginning"
    if text == "latest":
        return "latest"
    try:
        return parse_utc(text)
    except ValueError as error:
        raise BadSettings(
            f"--from {text!r}: give beginning, latest, or a time such as 2026-01-31T12:00:00Z"
        ) from error


def write_table(found: Iterable[Item], shape: Shape[Item]) -> None:
    """Lines for people, under a heading; no heading if nothing can be read."""
    items = iter(found)
    first = list(islice(items, 1))
    say(shape.heading)
    for one in chain(first, items):
        say(*shape.lines(one))


def write_json_lines(found: Iterable[Item], shape: Shape[Item]) -> None:
    """A JSON object a snapshot, whole, for programs."""
    for one in found:
        say(json.dumps(shape.document(one)))


def write_csv(found: Iterable[Item], shape: Shape[Item]) -> None:
    """Comma-separated rows under one heading; lists are separated by spaces.

    Texts that a spreadsheet would take for formulas get an apostrophe before them, and control
    characters are escaped.
    """
    from pyarrow import csv

    heading = True
    for one in found:
        table = safe_cells(shape.table(one))
        csv.write_csv(table, sys.stdout.buffer, csv.WriteOptions(include_header=heading))
        sys.stdout.buffer.flush()
        heading = False


def write_arrow(found: Iterable[Item], shape: Shape[Item]) -> None:
    """One Arrow IPC stream, a batch a snapshot.

    Raises:
        BadSettings: graphs with ids of different types cannot share one stream.
    """
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    schema: pa.Schema | None = None
    for one in found:
        table = _in_first(shape.table(one), schema)
        if writer is None:
            schema = table.schema
            writer = pa.ipc.new_stream(sys.stdout.buffer, schema)
        writer.write_table(table)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


def write_parquet(found: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    """Parquet: one file, whole when the stream ends; or, in a folder, a file a result.

    No half file is ever to be seen under its name. What came before an error is kept in
    FILE.incomplete.parquet.

    Raises:
        BadSettings: as `write_arrow`, for one file.
        StoreUnwritable: such as a full disk.
    """
    try:
        if out.suffix == ".parquet" and not out.is_dir():
            _write_one_file(found, shape, out)
        else:
            _write_a_file_each(found, shape, out)
    except OSError as error:
        raise StoreUnwritable(f"cannot write {out}: {error.strerror or error}") from error


def _write_one_file(found: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    items = iter(found)
    first = next(items, None)
    if first is None:
        return
    incomplete = out.with_name(f"{out.stem}.incomplete{out.suffix}")
    with whole_file(incomplete) as aside:
        error = _fill(aside, chain([first], items), shape)
    if error is not None:
        say(f"the results before the error are in {incomplete}", err=True)
        raise error
    incomplete.replace(out)


def _fill(path: Path, found: Iterable[Item], shape: Shape[Item]) -> StreamIcdError | None:
    """Write rows until the end, Ctrl-C, or an error of ours, which is returned."""
    from pyarrow import parquet

    writer: parquet.ParquetWriter | None = None
    schema: pa.Schema | None = None
    try:
        for one in found:
            table = _in_first(shape.table(one), schema)
            if writer is None:
                schema = table.schema
                writer = parquet.ParquetWriter(path, schema, compression="zstd")
            writer.write_table(table)
    except StreamIcdError as error:
        return error
    except KeyboardInterrupt:
        return None
    finally:
        if writer is not None:
            writer.close()
    return None


def _write_a_file_each(found: Iterable[Item], shape: Shape[Item], folder: Path) -> None:
    from pyarrow import parquet

    make_folder(folder)
    for one in found:
        table = shape.table(one)
        if table.num_rows:
            with whole_file(folder / _file_name(table)) as aside:
                parquet.write_table(table, aside, compression="zstd")


def _file_name(table: pa.Table) -> str:
    """`GRAPH@SNAPSHOT@MODEL@REVISION.parquet`, written as in a URL; cut where it is too long."""
    columns = ("graph", "snapshot_id", "model", "revision")
    graph, snapshot, model, revision = (str(table[column][0].as_py()) for column in columns)
    parts = quote(graph, safe=""), quote(snapshot, safe=""), quote(model, safe="@"), revision
    name = "@".join(part for part in parts if part)
    if len(name) > MOST_NAME:
        name = f"{name[: MOST_NAME - 21]}-{hashlib.sha256(name.encode()).hexdigest()[:20]}"
    if name[0] in "._":  # programs pass over files whose names begin so
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return f"{name}.parquet"


def _in_first(table: pa.Table, first: pa.Schema | None) -> pa.Table:
    same = table if first is None else in_schema(table, first)
    if same is None:
        raise BadSettings(
            "there are graphs with node ids of different types, and one Arrow stream or Parquet "
            "file has one type: choose a graph with --graph"
        )
    return same
