"""How what is followed is written: a table, JSON lines, an Arrow stream, or Parquet files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import pyarrow as pa

from stream_icd.cli.shapes import Shape
from stream_icd.errors import BadSettings
from stream_icd.printable import printable

Item = TypeVar("Item")


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
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(
            f"--from {text!r}: give beginning, latest, or a time such as 2026-01-31T12:00:00Z"
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def write_table(found: Iterable[Item], shape: Shape[Item]) -> None:
    """Lines for people, under a heading."""
    sys.stdout.write(shape.heading + "\n")
    sys.stdout.flush()
    for one in found:
        sys.stdout.writelines(f"{printable(line)}\n" for line in shape.lines(one))
        sys.stdout.flush()


def write_json_lines(found: Iterable[Item], shape: Shape[Item]) -> None:
    """A JSON object a snapshot, whole, for programs."""
    for one in found:
        sys.stdout.write(json.dumps(shape.document(one)) + "\n")
        sys.stdout.flush()


def write_arrow(found: Iterable[Item], shape: Shape[Item]) -> None:
    """One Arrow IPC stream, a batch a snapshot.

    Raises:
        BadSettings: graphs with ids of different types cannot share one stream.
    """
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    schema: pa.Schema | None = None
    for one in found:
        table = shape.table(one)
        if writer is None:
            schema = table.schema
            writer = pa.ipc.new_stream(sys.stdout.buffer, schema)
        _same(table.schema, schema)
        writer.write_table(table)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


def write_parquet(found: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    """Parquet: one file, whole when the stream ends; or, in a folder, a file a snapshot.

    No half file is ever to be seen under its name.

    Raises:
        BadSettings: as `write_arrow`, for one file.
    """
    if out.suffix == ".parquet" and not out.is_dir():
        _write_one_file(found, shape, out)
    else:
        _write_a_file_each(found, shape, out)


def _write_one_file(found: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    from pyarrow import parquet

    writer: parquet.ParquetWriter | None = None
    schema: pa.Schema | None = None
    unfinished = _unfinished(out)
    try:
        for one in found:
            table = shape.table(one)
            if writer is None:
                schema = table.schema
                writer = parquet.ParquetWriter(unfinished, schema, compression="zstd")
            _same(table.schema, schema)
            writer.write_table(table)
    finally:  # also at Ctrl-C: what came is kept
        if writer is not None:
            writer.close()
            unfinished.replace(out)


def _write_a_file_each(found: Iterable[Item], shape: Shape[Item], folder: Path) -> None:
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        table = shape.table(one)
        if table.num_rows:
            named = f"{table['snapshot_id'][0].as_py()}@{table['model'][0].as_py()}"
            out = folder / f"{quote(named, safe='@')}.parquet"
            parquet.write_table(table, _unfinished(out), compression="zstd")
            _unfinished(out).replace(out)


def _unfinished(out: Path) -> Path:
    return out.with_name(f".{out.name}.unfinished")


def _same(schema: pa.Schema, first: pa.Schema | None) -> None:
    if schema != first:
        raise BadSettings(
            "there are graphs with node ids of different types, and one Arrow stream or Parquet "
            "file has one type: choose a graph with --graph"
        )
