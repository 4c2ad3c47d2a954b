"""A detector's memory as bytes: an Arrow table of nodes, inside one whose schema says the rest.

A row holds a node's communities and, for each hypothesis, its community and its edges to later
nodes: how far each is from the one before, and the upper 16 bits of its 32-bit weight, all that
`sums._rounded` leaves.
Numbers that go up by one from row to row are written so that they compress: a node's community as
`FIRST_MEMBER` if no node before it is a member (communities are numbered in that order), and
community ids as differences. Numbers have the smallest type that holds all of a column.

The table has some 40 buffers, and Arrow would compress each by itself. It is written plain and is
the only value of the outer table, whose compression takes half the time and a quarter less room.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.core.errors import BadMemory, BadSnapshot
from stream_icd.core.node_ids import is_id_type
from stream_icd.core.snapshot import Window
from stream_icd.core.symmetric import both_ways
from stream_icd.methods.bp.level_graph import Rows, check_size
from stream_icd.methods.bp.posterior import Posterior
from stream_icd.methods.bp.prior import N_KEPT
from stream_icd.methods.memory.horizon import HypothesisKind
from stream_icd.methods.memory.memory import (
    CERTAIN,
    COUNTS,
    MOST_READ_IDS,
    Hypothesis,
    Memory,
    far_id,
)
from stream_icd.wire.arrow_stream import read_table, write_table
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import refusing

_Value = TypeVar("_Value", int, float, bool, str)

FORMAT = 8
METADATA = b"stream_icd.memory"

_OUTER = "memory"
"""The column of the outer table."""

FIRST_MEMBER = NOBODY - 1
"""The community of a node that is its first member. Communities are written less this number."""

_WIDER = 10
"""How many times the compression ratio of other tables that of a memory may have: a row has ten
times the bytes of a row of edges, and most of them are zeros where nodes have no edges."""

_MOST_HYPOTHESES = 8
"""Maximum number of hypotheses of a memory."""

_OF_KNOWN = {"community": pa.uint32(), "share": pa.uint8()}
_OF_EDGES = {"neighbours": pa.list_(pa.uint32()), "weights": pa.list_(pa.uint16())}
"""The widest types of the columns of what is known, and of each hypothesis."""

_RANKS = tuple(f"{part}_{rank}" for part in _OF_KNOWN for rank in range(N_KEPT))
_PARTS = ("label", *_OF_EDGES)
MEMORY_COLUMNS = dict.fromkeys(("node", "seen", "community_id", *_RANKS), True) | dict.fromkeys(
    (f"{part}_{at}" for at in range(_MOST_HYPOTHESES) for part in _PARTS), False
)
"""Columns of the table of nodes, and whether each memory has it."""

_FACTS = {"mixing": float, "stay": float, "believed": bool, "resolution": float}
"""What the metadata says of what is known."""

_OF_HYPOTHESIS = {"saved": float, "n_vain": int, "wait": int}
_OF_KIND = {"by": str, "decay": float, "within": float, "between": float}
"""What it says of each hypothesis."""


def encode_memory(memory: Memory) -> bytes:
    """Encode the memory as an Arrow IPC stream; the same memory gives the same bytes."""
    ids = np.zeros(memory.n_nodes, np.int64)  # the column has a place for each node
    ids[: len(memory.community_ids)] = memory.community_ids
    ids[1 : len(memory.community_ids)] -= memory.community_ids[:-1]
    columns: dict[str, Any] = {
        "node": memory.nodes,
        "seen": pa.array(memory.seen.astype(np.uint8)),
        "community_id": pa.array(ids),
    }
    posterior = memory.posterior
    communities = posterior.communities.T.copy()
    highest = np.maximum.accumulate(np.append(np.int32(NOBODY), communities[0]))
    communities[0][highest[1:] > highest[:-1]] = FIRST_MEMBER
    parts = _narrow(communities - FIRST_MEMBER), _narrow(np.rint(posterior.shares.T * CERTAIN))
    for part, ranks in zip(_OF_KNOWN, parts, strict=True):
        for rank, column in enumerate(ranks):
            columns[f"{part}_{rank}"] = pa.array(column)
    for at, hypothesis in enumerate(memory.hypotheses):
        columns[f"label_{at}"] = pa.array(_narrow(hypothesis.labels - NOBODY))
        columns |= _edges(at, hypothesis.evidence)
    rest = {
        "format": FORMAT,
        "window_start": memory.window.start.isoformat(),
        "window_end": memory.window.end.isoformat(),
        **{count: int(getattr(memory, count)) for count in ("next_id", *COUNTS)},
        **{fact: kind(getattr(posterior, fact)) for fact, kind in _FACTS.items()},
        "hypotheses": [
            {fact: kind(getattr(hypothesis, fact)) for fact, kind in _OF_HYPOTHESIS.items()}
            | {fact: kind(getattr(hypothesis.kind, fact)) for fact, kind in _OF_KIND.items()}
            for hypothesis in memory.hypotheses
        ],
    }
    return enclosed(pa.table(columns), rest)


def decode_memory(value: bytes, limits: Limits = DEFAULT_LIMITS) -> Memory:
    """Decode the memory that `encode_memory` wrote, bit for bit.

    Raises:
        BadMemory: the bytes are not a memory, or are from another version.
        LimitExceeded: the memory is above `limits`.
    """
    with refusing(BadMemory, "the memory cannot be read"):
        rest = _metadata(value)
        if rest["format"] != FORMAT:
            raise BadMemory(
                f"the memory has format {rest['format']!r:.80} and this version reads {FORMAT}; "
                "if it is a later one, upgrade stream-icd"
            )
        table = table_of_nodes(value, limits)
        nodes = table["node"].combine_chunks()
        if not is_id_type(nodes.type) or nodes.null_count:
            raise BadMemory(f"node has type {nodes.type!s:.80}; ids are integers or text, not null")
        counts = {name: _typed(rest, name, int) for name in ("next_id", *COUNTS)}
        if counts["next_id"] > MOST_READ_IDS:
            raise BadMemory(f"next_id must be at most {MOST_READ_IDS}, not {counts['next_id']}")
        ids = np.cumsum(_column(table, "community_id", pa.int64()).to_numpy())
        posterior, hypotheses = _posterior(table, rest), rest["hypotheses"]
        if not isinstance(hypotheses, list) or len(hypotheses) > _MOST_HYPOTHESES:
            raise BadMemory(f"a memory has a list of at most {_MOST_HYPOTHESES} hypotheses")
        return Memory(
            window=_window(rest),
            nodes=nodes,
            seen=_column(table, "seen", pa.uint8()).to_numpy() > 0,
            posterior=posterior,
            community_ids=ids[: posterior.n_communities],
            hypotheses=tuple(_hypothesis(table, at, facts) for at, facts in enumerate(hypotheses)),
            **counts,
        ).checked()


def enclosed(table: pa.Table, rest: Mapping[str, Any]) -> bytes:
    """Return the bytes of a memory: its table of nodes, and what else it says."""
    outer = pa.table({_OUTER: pa.array([write_table(table, compression=None)])})
    return write_table(outer.replace_schema_metadata({METADATA: json.dumps(rest)}))


def table_of_nodes(value: bytes, limits: Limits = DEFAULT_LIMITS) -> pa.Table:
    """Return the table of nodes of an encoded memory; raises as `decode_memory`."""
    wider = limits.model_copy(update={"decoded_ratio": _WIDER * limits.decoded_ratio})
    outer = read_table(value, {_OUTER: True}, wider, BadMemory)
    kind = outer.schema.field(_OUTER).type
    if kind != pa.binary() or len(outer) != 1 or outer[_OUTER].null_count:
        raise BadMemory(f"a memory is one table in a binary, not {len(outer)} of {kind!s:.80}")
    return read_table(outer[_OUTER][0].as_buffer(), MEMORY_COLUMNS, limits, BadMemory)


def is_of_this_version(value: bytes) -> bool:
    """Return whether bytes are a memory that this version would write; the table is not read.

    Raises:
        BadMemory: they are not a memory.
    """
    with refusing(BadMemory, "the memory cannot be read"):
        return bool(_metadata(value)["format"] == FORMAT)


def next_id_of(value: bytes) -> int | None:
    """Return the `next_id` of an encoded memory, also if the rest is damaged or of another version.

    None: it does not say it. Only the schema is read, not the table.
    """
    try:
        with refusing(BadMemory, "the memory cannot be read"):
            next_id = _metadata(value)["next_id"]
    except BadMemory:
        return None
    return next_id if type(next_id) is int and 0 <= next_id <= MOST_READ_IDS else None


def anew(value: bytes) -> bytes:
    """Return an encoded memory that holds only which ids are used up in another one.

    The other one may be damaged.
    """
    next_id = next_id_of(value)
    return encode_memory(Memory.forgotten(far_id(0) if next_id is None else next_id))


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that are not negative in the smallest type that holds them all."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _metadata(value: bytes) -> dict[str, Any]:
    found = (pa.ipc.open_stream(pa.py_buffer(value)).schema.metadata or {}).get(METADATA)
    if found is None:
        raise BadMemory("the table is no memory: its schema's metadata does not say so")
    rest: dict[str, Any] = json.loads(found)
    return rest


def _window(facts: Mapping[str, Any]) -> Window:
    try:
        return Window(*(datetime.fromisoformat(facts[f"window_{end}"]) for end in ("start", "end")))
    except BadSnapshot as error:
        raise BadMemory(str(error)) from error


def _typed(facts: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value:
    """Return a fact if it has the type that `encode_memory` writes; `Memory` checks its range."""
    value = facts[name]
    if type(value) is not kind:
        raise BadMemory(f"{name} must be {kind.__name__}, not {value!r:.80}")
    return value


def _posterior(table: pa.Table, facts: Mapping[str, Any]) -> Posterior:
    communities, shares = (
        np.stack(
            [_column(table, f"{part}_{rank}", kind).to_numpy() for rank in range(N_KEPT)], axis=1
        )
        for part, kind in _OF_KNOWN.items()
    )
    communities = (communities.astype(np.int64) + FIRST_MEMBER).astype(np.int32)
    firsts = communities[:, 0] == FIRST_MEMBER
    communities[firsts, 0] = np.arange(np.count_nonzero(firsts))
    shares = (shares / np.float32(CERTAIN)).astype(np.float32)
    rest: dict[str, Any] = {fact: _typed(facts, fact, kind) for fact, kind in _FACTS.items()}
    return Posterior(communities, shares, **rest)


def _hypothesis(table: pa.Table, at: int, facts: Mapping[str, Any]) -> Hypothesis:
    kind: dict[str, Any] = {fact: _typed(facts, fact, of) for fact, of in _OF_KIND.items()}
    rest: dict[str, Any] = {fact: _typed(facts, fact, of) for fact, of in _OF_HYPOTHESIS.items()}
    labels = _column(table, f"label_{at}", pa.uint32()).to_numpy().astype(np.int64) + NOBODY
    return Hypothesis(HypothesisKind(**kind), _evidence(table, at), labels.astype(np.int32), **rest)


def _edges(at: int, evidence: Rows) -> dict[str, pa.Array]:
    """Return the columns of each node's edges to later nodes: gaps and weights."""
    offsets, gaps, weights = _later(evidence)
    bits = (weights.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return {
        f"{edge}_{at}": pa.ListArray.from_arrays(offsets, values)
        for edge, values in zip(_OF_EDGES, (_narrow(gaps), bits), strict=True)
    }


@compiled()
def _later(
    evidence: Rows,
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.float32]]:
    """The entries above the diagonal: where rows begin, gaps between columns, and weights."""
    indptr, indices = unsigned(evidence.indptr), unsigned(evidence.indices)
    offsets, later = np.zeros(len(indptr), np.int32), indptr[:-1].copy()
    gaps, kept = np.empty(len(indices), np.uint32), np.empty(len(indices), np.float32)
    n_kept = 0
    for row in range(len(later)):
        last = row
        for entry in range(later[row], indptr[row + 1]):  # the rows before it have counted the rest
            column = indices[entry]
            gaps[n_kept], kept[n_kept] = column - last, evidence.weights[entry]
            last, n_kept = column, n_kept + 1
            later[column] += 1
        offsets[row + 1] = n_kept
    return offsets, gaps[:n_kept], kept[:n_kept]


def _evidence(table: pa.Table, at: int) -> Rows:
    """Return the graph of the edges that `_edges` wrote."""
    gaps, bits = (_column(table, f"{edge}_{at}", kind) for edge, kind in _OF_EDGES.items())
    counts = gaps.value_lengths().to_numpy()
    if not np.array_equal(counts, bits.value_lengths().to_numpy()):
        raise BadMemory(f"hypothesis {at}: each edge needs a weight")
    weights = (bits.flatten().to_numpy().astype(np.uint32) << np.uint32(16)).view(np.float32)
    if not ((weights > 0) & (weights < np.inf)).all():
        raise BadMemory(f"hypothesis {at}: weights must be positive and finite")
    check_size(table.num_rows, 2 * len(weights))
    entries = _entries(counts, gaps.flatten().to_numpy())
    if entries is None:
        raise BadMemory(f"hypothesis {at}: an edge names a node that is not one of the later nodes")
    both, indices, indptr = both_ways(*entries, weights, table.num_rows)
    return Rows(indptr, indices, both)


@compiled()
def _entries(
    counts: NDArray[np.int32], gaps: NDArray[np.uint32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """Rows and columns of the entries above the diagonal, of `_later`; None if one is not there."""
    rows, columns, end = np.empty(len(gaps), np.int32), np.empty(len(gaps), np.int32), 0
    for row, count in enumerate(counts):
        column = row
        for entry in range(end, end + count):
            column += gaps[entry]
            if not gaps[entry] or column >= len(counts):
                return None
            rows[entry], columns[entry] = row, column
        end += count
    return rows, columns


def _column(table: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column of whole numbers in this type, without nulls, also in its lists."""
    column = table[name].combine_chunks()
    is_list = pa.types.is_list(column.type)
    elements = column.flatten() if is_list else column
    whole = is_list == pa.types.is_list(kind) and pa.types.is_integer(elements.type)
    if not whole or column.null_count or elements.null_count:
        raise BadMemory(f"{name} has type {column.type!s:.80}; it must be {kind}, none null")
    return column.cast(kind)
