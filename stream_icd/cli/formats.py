"""How a stream of communities is printed: a table, JSON lines, or one Arrow stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa

from stream_icd.communities import Communities
from stream_icd.errors import BadSettings

COLUMNS = (
    f"{'snapshot':<28} {'nodes':>8} {'edges':>9} {'communities':>11} {'modularity':>10} "
    f"{'largest':>8} {'ms':>8}  model"
)


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


def write_table(found: Iterable[Communities]) -> None:
    """A line a snapshot, for people."""
    sys.stdout.write(COLUMNS + "\n")
    for one in found:
        sys.stdout.write(
            f"{one.snapshot_id:<28} {one.n_nodes:>8,} {one.n_edges:>9,} {one.n_communities:>11,} "
            f"{one.modularity:>10.4f} {int(one.sizes.max()):>8,} "
            f"{sum(one.milliseconds.values()):>8.1f}  {one.model}\n"
        )
        sys.stdout.flush()


def write_json_lines(found: Iterable[Communities]) -> None:
    """A JSON object a snapshot, whole, for programs."""
    for one in found:
        sys.stdout.write(to_json(one) + "\n")
        sys.stdout.flush()


def to_json(one: Communities) -> str:
    """One result as a JSON object on one line."""
    return json.dumps(
        {
            "graph": one.graph,
            "snapshot_id": one.snapshot_id,
            "window_start": one.window.start.isoformat(),
            "window_end": one.window.end.isoformat(),
            "model": one.model,
            "n_nodes": one.n_nodes,
            "n_edges": one.n_edges,
            "n_communities": one.n_communities,
            "modularity": one.modularity,
            "ncut": one.ncut,
            "milliseconds": one.milliseconds,
            "detected_at": one.detected_at.isoformat(),
            "nodes": one.nodes.to_pylist(),
            "communities": one.labels.tolist(),
        }
    )


def write_arrow(found: Iterable[Communities]) -> None:
    """One Arrow IPC stream, a batch a snapshot, a row a node.

    Raises:
        BadSettings: graphs with ids of different types cannot share one stream.
    """
    writer: pa.ipc.RecordBatchStreamWriter | None = None
    schema: pa.Schema | None = None
    for one in found:
        batch = _batch(one)
        if writer is None:
            schema = batch.schema
            writer = pa.ipc.new_stream(sys.stdout.buffer, schema)
        if batch.schema != schema:
            raise BadSettings(
                f"{one.graph} has node ids of type {one.nodes.type}, unlike the graphs before it; "
                f"an Arrow stream has one type: choose one with --graph"
            )
        writer.write_batch(batch)
        sys.stdout.buffer.flush()
    if writer is not None:
        writer.close()


def _batch(one: Communities) -> pa.RecordBatch:
    def repeated(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), one.n_nodes)

    zoned = pa.timestamp("us", tz="UTC")
    return pa.RecordBatch.from_pydict(
        {
            "graph": repeated(one.graph, pa.string()),
            "snapshot_id": repeated(one.snapshot_id, pa.string()),
            "window_start": repeated(one.window.start, zoned),
            "window_end": repeated(one.window.end, zoned),
            "model": repeated(one.model, pa.string()),
            "node": one.nodes,
            "community": pa.array(one.labels),
        }
    )
