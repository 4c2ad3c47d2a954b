"""How what is followed is written: lines, JSON, CSV, Arrow, Parquet."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
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


def writer_of(
    form: Literal["table", "json", "csv", "arrow", "parquet"],
    out: Path | None = None,
    group: str | None = None,
) -> Callable[[Iterable[Item], Shape[Item]], None]:
    """Return what writes results as they come: to `out` if Parquet, else to standard output.

    Raises `BadSettings` if Parquet and a place do not come together, or for one file of a group.
    """
    if (form == "parquet") != (out is not None):
        raise BadSettings("--format parquet and --out FILE.parquet or --out FOLDER go together")
    if out is None:
        to_output = {"table": _write_table, "json": _write_json_lines, "csv": _write_csv}
        return to_output.get(form, _write_arrow)
    if group is not None and _is_one_file(out):
        raise BadSettings(
            "a group continues after a restart, and the new file would replace the results "
            "before: give --out a folder, or leave out --group"
        )
    return partial(_write_parquet, out=out)


def _write_table(results: Iterable[Item], shape: Shape[Item]) -> None:
    results = iter(results)
    first = list(islice(results, 1))  # before the heading: nothing may be readable
    say(shape.heading)
    for result in chain(first, results):
        say(*shape.lines(result))


def _write_json_lines(results: Iterable[Item], shape: Shape[Item]) -> None:
    for result in results:
        say(json.dumps(shape.document(result)))


def _write_csv(results: Iterable[Item], shape: Shape[Item]) -> None:
    from pyarrow import csv

    options = csv.WriteOptions(include_header=True)
    for result in results:
        csv.write_csv(safe_cells(shape.table(result)), sys.stdout.buffer, options)
        sys.stdout.buffer.flush()  # else who follows a slow stream sees results minutes late
        options.include_header = False


def _write_arrow(results: Iterable[Item], shape: Shape[Item]) -> None:
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    for table in _tables(results, shape):
        writer = writer or pa.ipc.new_stream(sys.stdout.buffer, table.schema)
        writer.write_table(table)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


def _is_one_file(out: Path) -> bool:
    return out.suffix == ".parquet" and not out.is_dir()


def _write_parquet(results: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    with writing(out):
        if _is_one_file(out):
            _write_one_file(_tables(results, shape), out)
        else:
            _write_a_file_each(map(shape.table, results), out)


def _write_one_file(tables: Iterator[pa.Table], out: Path) -> None:
    """Write rows until the end, Ctrl-C, or an error of ours, which is raised afterwards.

    What came before an error is kept in FILE.incomplete.parquet.
    """
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
    incomplete.replace(out)  # only now: nobody ever sees a half file under its name


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
        converted = table if schema is None else in_schema(table, schema)
        if converted is None:
            raise BadSettings(
                "node ids have different types, and one Arrow stream or Parquet file has one: "
                "choose a graph with --graph; if its own differ, choose csv or json with --format"
            )
        schema = converted.schema
        yield converted
