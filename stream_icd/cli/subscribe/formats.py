"""How what is followed is written; and where there is nothing to write, why."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import pyarrow as pa

from stream_icd.cli.subscribe.shapes import Shape
from stream_icd.errors import BadSettings, StoreUnwritable, StreamIcdError
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import EVENTS
from stream_icd.node_ids import in_schema
from stream_icd.printable import did_you_mean, listed, printable, safe_cells, say
from stream_icd.store.whole_file import make_folder, whole_file
from stream_icd.times import parse_utc

Item = TypeVar("Item")
MOST_NAME = 200
"""Bytes of a file's name; file systems take 255."""


def parse_start(text: str) -> Literal["beginning", "latest"] | datetime:
    """`beginning`, `latest`, or a time; a time without a zone is taken for UTC."""
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
    """Comma-separated rows under one heading, fit for spreadsheets; see `safe_cells`."""
    from pyarrow import csv

    heading = True
    for one in found:
        table = safe_cells(shape.table(one))
        csv.write_csv(table, sys.stdout.buffer, csv.WriteOptions(include_header=heading))
        sys.stdout.buffer.flush()
        heading = False


def write_arrow(found: Iterable[Item], shape: Shape[Item]) -> None:
    """One Arrow IPC stream, a batch a snapshot."""
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    for table in _tables(found, shape):
        writer = writer or pa.ipc.new_stream(sys.stdout.buffer, table.schema)
        writer.write_table(table)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


def write_parquet(found: Iterable[Item], shape: Shape[Item], out: Path) -> None:
    """Parquet: one file, whole when the stream ends; or, in a folder, a file a result.

    No half file is ever to be seen under its name. What came before an error is kept in
    FILE.incomplete.parquet.
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
    try:
        for table in _tables(found, shape):
            writer = writer or parquet.ParquetWriter(path, table.schema, compression="zstd")
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


def _tables(found: Iterable[Item], shape: Shape[Item]) -> Iterator[pa.Table]:
    """The items as tables of one schema, that of the first."""
    schema: pa.Schema | None = None
    for one in found:
        table = shape.table(one)
        same = table if schema is None else in_schema(table, schema)
        if same is None:
            raise BadSettings(
                "there are graphs with node ids of different types, and one Arrow stream or "
                "Parquet file has one type: choose a graph with --graph"
            )
        schema = same.schema
        yield same


class Emptiness:
    """Counts what a subscription shows, and says why that is nothing."""

    def __init__(self, settings: KafkaSettings, topic: str, graph: str | None) -> None:
        self._settings = settings
        self._topic = topic
        self._graph = graph
        self._count = 0

    def counted(self, found: Iterable[Item]) -> Iterator[Item]:
        for one in found:
            self._count += 1
            yield one

    def warn(self) -> None:
        """Say on standard error when there are no events yet: perhaps no tracker runs."""
        with open_reader(self._settings, self._topic, until="end", limit=1) as records:
            if next(iter(records), None) is None:
                say(f"{self._no_tracker()}; waiting for one", err=True)

    def refuse(self) -> None:
        """Raise `BadSettings` if no tracker has published, or only other graphs are there."""
        if self._count or (self._graph is None and self._topic != EVENTS):
            return
        with open_reader(self._settings, self._topic, until="end") as records:
            graphs = sorted({(record.key or b"").decode(errors="replace") for record in records})
        if not graphs and self._topic == EVENTS:
            raise BadSettings(self._no_tracker())
        if self._graph is not None and self._graph not in graphs:
            said = (
                f"{self._topic} holds nothing of graph {self._graph}; it holds "
                f"{listed(graphs) or 'none'}{did_you_mean(self._graph, graphs)}"
            )
            raise BadSettings(printable(said))

    def _no_tracker(self) -> str:
        return (
            f"{self._topic} is empty: no tracker has published events. "
            f"Run one: stream-icd consume track"
        )
