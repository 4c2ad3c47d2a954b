"""A detector's memory as bytes: an Arrow table of nodes, with metadata in its schema."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadMemory
from stream_icd.memory.memory import MOST_READ_IDS, N_BELIEFS, NO_COMMUNITY, Memory
from stream_icd.node_ids import is_id_type
from stream_icd.snapshot import Window
from stream_icd.wire.arrow_stream import read_table, write_table
from stream_icd.wire.boundary import refusing
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

FORMAT = 1
METADATA = b"stream_icd.memory"
KINDS = {
    "window_start": str,
    "window_end": str,
    "mixing": float,
    "stay": float,
    "next_id": int,
    "believed": bool,
    "pull": float,
    "has_rival": bool,
    "n_present": int,
}
"""What the metadata says, and the type of each."""

COLUMNS = {
    "node": True,
    **{f"{name}_{rank}": True for name in ("community", "belief") for rank in range(N_BELIEFS)},
    "rival": True,
}


def encode_memory(memory: Memory) -> bytes:
    """Encode the memory as an Arrow IPC stream; the same memory gives the same bytes."""
    columns = [memory.nodes]
    columns += [pa.array(np.ascontiguousarray(one)) for one in memory.communities.T]
    columns += [pa.array(np.ascontiguousarray(one)) for one in memory.beliefs.T]
    rival = memory.rival
    columns.append(
        pa.array(np.full(memory.n_nodes, NO_COMMUNITY, np.int32) if rival is None else rival)
    )
    table = pa.table(columns, names=list(COLUMNS))
    rest = {
        "format": FORMAT,
        "window_start": memory.window.start.isoformat(),
        "window_end": memory.window.end.isoformat(),
        "mixing": float(memory.mixing),
        "stay": float(memory.stay),
        "next_id": int(memory.next_id),
        "believed": bool(memory.believed),
        "pull": float(memory.pull),
        "has_rival": memory.rival is not None,
        "n_present": int(memory.n_present),
    }
    return write_table(table.replace_schema_metadata({METADATA: json.dumps(rest)}))


def decode_memory(value: bytes, limits: Limits = DEFAULT_LIMITS) -> Memory:
    """Decode the memory that `encode_memory` wrote, bit for bit.

    Raises:
        BadMemory: the bytes are not a memory, or are from a later version.
        LimitExceeded: the memory is above `limits`.
    """
    with refusing(BadMemory, "the memory cannot be read"):
        table = read_table(value, COLUMNS, limits, BadMemory)
        rest = _checked(_metadata(table.schema))
        nodes = table["node"].combine_chunks()
        if not is_id_type(nodes.type) or nodes.null_count:
            raise BadMemory(f"node has type {nodes.type}; ids are integers or strings, none null")
        return Memory(
            window=Window(*(datetime.fromisoformat(rest[f"window_{e}"]) for e in ("start", "end"))),
            nodes=nodes,
            communities=_columns(table, "community", pa.int64()),
            beliefs=_columns(table, "belief", pa.float32()),
            mixing=rest["mixing"],
            stay=rest["stay"],
            next_id=rest["next_id"],
            believed=rest["believed"],
            pull=rest["pull"],
            rival=_column(table, "rival", pa.int32()) if rest["has_rival"] else None,
            n_present=rest["n_present"],
        )


def next_id_of(value: bytes) -> int | None:
    """Return the `next_id` of an encoded memory, also if the rest is damaged or of another version.

    None: it does not say it. Only the schema is read, not the table.
    """
    try:
        with refusing(BadMemory, "the memory cannot be read"):
            next_id = _metadata(pa.ipc.open_stream(value).schema)["next_id"]
    except BadMemory:
        return None
    return next_id if type(next_id) is int and 0 <= next_id <= MOST_READ_IDS else None


def _metadata(schema: pa.Schema) -> dict[str, Any]:
    found = (schema.metadata or {}).get(METADATA)
    if found is None:
        raise BadMemory("the table is no memory: its schema's metadata does not say so")
    rest: dict[str, Any] = json.loads(found)
    return rest


def _checked(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata if it is what `encode_memory` writes; `Memory` checks the values."""
    if rest["format"] != FORMAT:
        raise BadMemory(
            f"the memory has format {rest['format']!r:.80} and this version reads {FORMAT}; if it "
            "is a later one, upgrade stream-icd"
        )
    for name, kind in KINDS.items():
        if type(rest[name]) is not kind:
            raise BadMemory(f"{name} must be {kind.__name__}, not {rest[name]!r:.80}")
    if rest["next_id"] > MOST_READ_IDS:
        raise BadMemory(f"next_id must be at most {MOST_READ_IDS}, not {rest['next_id']}")
    return rest


def _columns(table: pa.Table, name: str, kind: pa.DataType) -> NDArray[Any]:
    """Return columns name_0, name_1, ... as one array, `(n_nodes, N_BELIEFS)`."""
    return np.stack([_column(table, f"{name}_{rank}", kind) for rank in range(N_BELIEFS)], axis=1)


def _column(table: pa.Table, name: str, kind: pa.DataType) -> NDArray[Any]:
    column = table[name]
    if column.type != kind or column.null_count:
        raise BadMemory(f"{name} has type {column.type}; it must be {kind}, none null")
    values: NDArray[Any] = column.to_numpy()
    return values
