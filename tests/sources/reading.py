"""Writes files of graphs and rows, reads a folder of graphs, and shows what came of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stream_icd.core.errors import BadRow
from stream_icd.core.snapshot import Snapshot
from stream_icd.sources.edge_files import watch_edge_files

Content: TypeAlias = str | bytes | pa.Table | Callable[[Path], object]
"""Of a file: text, bytes, a table of Parquet, or what writes it."""


def write(folder: Path, files: Mapping[str, Content]) -> Path:
    """Write files below a folder, and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            content = parquet(content) if isinstance(content, pa.Table) else content
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def parquet(table: pa.Table, **options: Any) -> bytes:
    pq.write_table(table, sink := io.BytesIO(), **options)
    return sink.getvalue()


def arrow(table: pa.Table, new: Callable[..., Any] = pa.ipc.new_file, **options: Any) -> bytes:
    """The bytes of a file, or of a stream with `pa.ipc.new_stream`."""
    with new(sink := io.BytesIO(), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table)
    return sink.getvalue()


def read(folder: Path, **options: Any) -> tuple[list[Snapshot], list[str]]:
    """The snapshots, and the reasons why rows or files are bad."""
    bad: list[BadRow] = []
    source = watch_edge_files(folder, on_bad_row=bad.append, **options)
    return [snapshot for snapshot, _ in source.snapshots], [str(error) for error in bad]


def weighted(snapshot: Snapshot) -> dict[tuple[object, ...], float]:
    """The weight of each edge, by the ids of its ends; 1 if edges have none."""
    nodes = snapshot.nodes.to_pylist()
    weights = np.ones(snapshot.n_edges) if snapshot.weights is None else snapshot.weights
    pairs = snapshot.edges.T.tolist()
    ends = [(nodes[low], nodes[high]) for low, high in pairs]
    return dict(zip(ends, weights.tolist(), strict=True))
