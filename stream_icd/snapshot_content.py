"""The hash of a snapshot's content, which tells a correction from a repetition.

Graph, id and source name a snapshot; everything else is its content. The hash is computed from the
canonical form, so it does not depend on the order and direction of the pairs or on the width of
the ids' type. docs/wire.md describes it for programs in other languages.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray


def content_hash(
    start: datetime,
    end: datetime,
    nodes: pa.Array,
    edges: NDArray[np.integer],
    weights: NDArray[np.floating] | None,
    n_communities: int | None,
) -> str:
    """Return the SHA-256 of a snapshot in canonical form, 64 lower-case hexadecimal digits.

    Args:
        start, end: start and end of the window.
        nodes, edges, weights, n_communities: as the attributes of `Snapshot`.
    """
    kind, ids = _ids(nodes)
    head = (
        f"window {_microseconds(start)} {_microseconds(end)}\n"
        f"k {n_communities or 0}\n"
        f"nodes {len(nodes)} {kind}\n"
        f"edges {edges.shape[1]} {'plain' if weights is None else 'weighted'}\n"
    )
    digest = hashlib.sha256(head.encode())
    arrays: list[Any] = [*ids, np.ascontiguousarray(edges, "<i8")]
    if weights is not None:
        arrays.append(np.ascontiguousarray(weights, "<f8"))
    for part in arrays:
        digest.update(part)
    return digest.hexdigest()


def _microseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)


def _ids(nodes: pa.Array) -> tuple[str, tuple[Any, ...]]:
    """Return the kind of the ids, and their bytes."""
    if not pa.types.is_integer(nodes.type):
        return "utf8", _texts(nodes.cast(pa.large_utf8()))
    values = nodes.to_numpy()
    if values.dtype != np.uint64 or not len(values) or values[-1] < 1 << 63:  # they are ascending
        return "int64", (np.ascontiguousarray(values, "<i8"),)
    return "uint64", (np.ascontiguousarray(values, "<u8"),)


def _texts(nodes: pa.LargeStringArray) -> tuple[Any, ...]:
    """Return the lengths in bytes, then all bytes."""
    _, offsets, data = nodes.buffers()
    starts = np.frombuffer(offsets, "<i8")[nodes.offset : nodes.offset + len(nodes) + 1]
    return np.diff(starts), memoryview(data)[starts[0] : starts[-1]]
