"""The community of each node of a window, compressed: most of what a page keeps in memory."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.tracking.partition import Partition, by_name

WRITING = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
READING = pa.ipc.IpcReadOptions(use_threads=False)


def packed(nodes: pa.Array, ids: NDArray[np.int64]) -> bytes:
    """Return nodes and the stable ids of their communities, compressed; `unpacked` reads it."""
    table = pa.table({"node": nodes, "id": pa.array(_narrow(ids))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=WRITING) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(members: bytes) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return what `packed` was given."""
    table = pa.ipc.open_stream(members, options=READING).read_all().combine_chunks()
    nodes = cast(pa.Array, table["node"].combine_chunks())
    return nodes, table["id"].to_numpy().astype(np.int64)


def partition(members: bytes) -> Partition:
    """Return the communities of a window, named by their stable ids."""
    return by_name(*unpacked(members))


def _narrow(ids: NDArray[np.int64]) -> NDArray[np.integer]:
    """Return the ids in the narrowest type that holds them: it compresses three times as well."""
    return ids.astype(np.min_scalar_type(int(ids.max(initial=0))))
