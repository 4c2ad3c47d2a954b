"""How what is followed is written: lines, JSON, CSV, Arrow, Parquet."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pyarrow as pa

from stream_icd.commands.cli.subscribe_shapes import Item, Shape
from stream_icd.core.errors import BadSettings, StreamIcdError
from stream_icd.core.node_ids import in_schema
from stream_icd.core.printable import safe_cells, say
from stream_icd.core.store.whole_file import make_folder, whole_file, writing

_MOST_NAME = 200
"""Bytes of a file's name; file systems take 255."""


def write(
    form: Literal["table", "json", "csv", "arrow", "parquet"],
    results: Iterable[Item],
    shape: Shape[Item],
    out: Path | None = None,
) -> None:
    """Write results as they come: Parquet to the file or folder `out`, else to standard output."""
    if form == "table":
        _write_table(results, shape)
    elif form == "json":
        _write_json_lines(results, shape)
    elif form == "csv":
        _write_csv(results, shape)
    elif form == "arrow":
        _write_arrow(results, shape)
    else:
        assert out is not None, "Parquet is not written to standard output"
        _write_parquet(results, shape, out)


def _write_table(results: Iterable[Item], shape: Shape[Item]) -> None:
    """Lines for people, under a heading; no heading if nothing can be read."""
    results = iter(results)
    first = list(islice(results, 1))
    say(shape.heading)
    for result in chain(first, results):
        say(*shape.lines(result))


def _write_json_lines(results: Iterable[Item], shape: Shape[Item]) -> None:
    for result in results:
        say(json.dumps(shape.document(result)))


def _write_csv(results: Iterable[Item], shape: Shape[Item]) -> None:
    """Comma-separated rows under one heading, fit for spreadsheets; see `safe_cells`."""
    from pyarrow import csv

    options = csv.WriteOptions(include_header=True)
    for result in results:
        csv.write_csv(safe_cells(shape.table(result)), sys.stdout.buffer, options)
        sys.stdout.buffer.flush()
        options.include_header = False


def _write_arrow(results: Iterable[Item], shape: Shape[Item]) -> None:
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    for table in _tables(results, shape):
        writer = writer or pa.ipc.new_stream(sys.stdout.buffer, table.schema)
        writer.write_table(table)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


def is_one_file(out: Path) -> bool:
    """Return whether all results go to one Parquet file; else the place is a folder."""
    return out.suffix == ".parquet" and not out.is_dir()


def _write_parquet(results: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    """Parquet: one file, whole when the stream ends; or, in a folder, a file a result.

    No half file is ever to be seen under its name. What came before an error is kept in
    FILE.incomplete.parquet.
    """
    with writing(out):
        if is_one_file(out):
            _write_one_file(_tables(results, shape), out)
        else:
            _write_a_file_each(map(shape.table, results), out)


def _write_one_file(tables: Iterator[pa.Table], out: Path) -> None:
    """Write rows until the end, Ctrl-C, or an error of ours, which is raised afterwards."""
    from pyarrow.parquet import ParquetWriter

    first, failed = next(tables, None), None
    if first is None:
        return
    incomplete = out.with_name(f"{out.stem}.incomplete{out.suffix}")
    with (
        whole_file(incomplete) as aside,
        ParquetWriter(aside, first.schema, compression="zstd") as writer,
    ):
        try:
            for table in chain([first], tables):
                writer.write_table(table)
        except KeyboardInterrupt:
            pass
        except StreamIcdError as error:
            failed = error
    if failed is not None:
        say(f"the results before the error are in {incomplete}", err=True)
        raise failed
    incomplete.replace(out)


def _write_a_file_each(tables: Iterable[pa.Table], folder: Path) -> None:
    from pyarrow.parquet import write_table

    make_folder(folder)
    for table in tables:
        if table.num_rows:
            with whole_file(folder / _file_name(table)) as aside:
                write_table(table, aside, compression="zstd")


def _file_name(table: pa.Table) -> str:
    """`GRAPH@SNAPSHOT@MODEL@REVISION.parquet`, written as in a URL; cut where it is too long."""
    columns = ("graph", "snapshot_id", "model", "revision")
    graph, snapshot, model, revision = (str(table[column][0].as_py()) for column in columns)
    parts = quote(graph, safe=""), quote(snapshot, safe=""), quote(model, safe="@"), revision
    name = "@".join(part for part in parts if part)
    if len(name) > _MOST_NAME:
        name = f"{name[: _MOST_NAME - 21]}-{hashlib.sha256(name.encode()).hexdigest()[:20]}"
    if name[0] in "._":  # programs pass over files whose names begin so
        name = f"%{ord(name[0]):02X}{name[1:]}"
    return f"{name}.parquet"


def _tables(results: Iterable[Item], shape: Shape[Item]) -> Iterator[pa.Table]:
    schema: pa.Schema | None = None
    for table in map(shape.table, results):
        same = table if schema is None else in_schema(table, schema)
        if same is None:
            raise BadSettings(
                "node ids have different types, and one Arrow stream or Parquet file has one: "
                "choose a graph with --graph; if its own differ, choose csv or json with --format"
            )
        schema = same.schema
        yield same
