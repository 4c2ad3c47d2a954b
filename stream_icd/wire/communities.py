"""Communities and labels on the wire: a table of nodes, one message per snapshot (docs/wire.md)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.communities import STAGES, Communities, EvidenceStrength, Labels, MemoryUse
from stream_icd.errors import BadCommunities, BadInput
from stream_icd.node_ids import is_id_type
from stream_icd.wire.arrow_stream import read_table, write_table
from stream_icd.wire.cloudevents import (
    EventHeaders,
    event_headers,
    graph_of,
    result_id,
    revision_headers,
    window_headers,
)
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import Headers, Message, refusing

COMMUNITIES_TYPE = "stream_icd.communities.v1"
LABELS_TYPE = "stream_icd.labels.v1"
COLUMNS = {"node": True, "community": True}
IDS, REPLACED = b"icd_community_ids", b"icd_replaced"
MOVED, MOVED_BITS = b"icd_moved", b"icd_moved_bits"
"""Keys in the metadata of the table's schema, which readers of earlier versions ignore."""


def encode_communities(communities: Communities) -> Message:
    """Encode communities as a message; its headers summarise the result without the table."""
    extra = {
        "icd_snapshot_id": communities.snapshot_id,
        **window_headers(communities.window),
        "icd_model": communities.model,
        "icd_k": str(communities.n_communities),
        "icd_n_edges": str(communities.n_edges),
        "icd_modularity": f"{communities.modularity:.9g}",
        "icd_ncut": f"{communities.ncut:.9g}",
        "icd_detected_at": communities.detected_at.isoformat(),
        **{f"icd_ms_{stage}": f"{communities.milliseconds[stage]:.3f}" for stage in STAGES},
        **revision_headers(communities.revision, communities.snapshot_place),
        **_made_from(communities),
        **_evidence(communities),
    }
    headers = event_headers(
        type=COMMUNITIES_TYPE,
        source=f"stream_icd/models/{communities.model}",
        id=result_id(communities.snapshot_id, communities.model, communities.revision),
        time=communities.window.end,
        extra=extra,
    )
    table = _with_ids(_node_table(communities.nodes, communities.labels), communities)
    return Message(key=communities.graph.encode(), value=write_table(table), headers=headers)


def decode_communities(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> Communities:
    """Decode the communities of a message from outside.

    Raises:
        BadCommunities: the message breaks the contract; the text says how.
        LimitExceeded: it is above `limits`.
    """
    with refusing(BadCommunities, "the message cannot be read"):
        fields = EventHeaders(headers, COMMUNITIES_TYPE, limits, BadCommunities)
        nodes, labels, metadata = _read_nodes(value, limits, BadCommunities)
        communities = Communities(
            graph=graph_of(key, limits, BadCommunities),
            snapshot_id=fields.text("icd_snapshot_id"),
            window=fields.window(),
            nodes=nodes,
            labels=labels,
            n_edges=fields.count("icd_n_edges") or 0,
            model=fields.text("icd_model"),
            modularity=fields.number("icd_modularity"),
            ncut=fields.number("icd_ncut"),
            milliseconds={stage: fields.number(f"icd_ms_{stage}") for stage in STAGES},
            detected_at=fields.time("icd_detected_at"),
            revision=fields.optional("icd_revision") or "",
            content=fields.optional("icd_content") or "",
            k_given=fields.count("icd_k_given"),
            seed=fields.whole("icd_seed"),
            snapshot_place=fields.optional("icd_snapshot_place") or "",
            evidence=_read_evidence(fields),
            bits_saved=_read_bits_saved(fields),
            community_ids=stable_ids(metadata),
            replaced=_read_pairs(metadata, REPLACED),
            moved=_read_pairs(metadata, MOVED),
            moved_bits=_numbers(metadata, MOVED_BITS, np.dtype("<f8")),
            memory=_read_memory_use(fields),
            horizon=_read_horizon(fields),
            predicted_bits=_read_number(fields, "icd_predicted_bits"),
        )
        if communities.n_communities != fields.count("icd_k"):
            raise BadCommunities(
                f"header icd_k says {fields.count('icd_k')} communities; "
                f"the table has {communities.n_communities}"
            )
        return communities


def _made_from(communities: Communities) -> dict[str, str]:
    """Return the headers for K, seed, memory and other inputs of the result, if they are known."""
    known = {
        "icd_content": communities.content or None,
        "icd_k_given": communities.k_given,
        "icd_seed": communities.seed,
        "icd_memory": communities.memory,
    }
    found = {name: str(value) for name, value in known.items() if value is not None}
    for name in ("horizon", "predicted_bits"):
        if (number := getattr(communities, name)) is not None:
            found[f"icd_{name}"] = f"{number:.9g}"
    return found


def _evidence(communities: Communities) -> dict[str, str]:
    """Return the headers for the evidence that there are communities, if it is known."""
    known: dict[str, str] = {}
    if communities.evidence is not None:
        known["icd_evidence"] = communities.evidence
    if communities.bits_saved is not None:
        known["icd_bits_saved"] = f"{communities.bits_saved:.9g}"
    return known


def _read_evidence(fields: EventHeaders) -> EvidenceStrength | None:
    words = get_args(EvidenceStrength)
    return cast(EvidenceStrength | None, _one_of(fields, "icd_evidence", words))


def _read_memory_use(fields: EventHeaders) -> MemoryUse | None:
    return cast(MemoryUse | None, _one_of(fields, "icd_memory", get_args(MemoryUse)))


def _one_of(fields: EventHeaders, name: str, words: tuple[str, ...]) -> str | None:
    text = fields.optional(name)
    if text is not None and text not in words:
        raise BadCommunities(f"header {name} is {text!r:.80}; expected one of {', '.join(words)}")
    return text


def _read_number(fields: EventHeaders, name: str) -> float | None:
    return None if fields.optional(name) is None else fields.number(name)


def _read_horizon(fields: EventHeaders) -> float | None:
    horizon = _read_number(fields, "icd_horizon")
    if horizon is not None and horizon < 1:
        raise BadCommunities(f"header icd_horizon is {horizon}; expected a number from 1")
    return horizon


def _read_bits_saved(fields: EventHeaders) -> float | None:
    saved = _read_number(fields, "icd_bits_saved")
    if saved is not None and saved < 0:
        raise BadCommunities(f"header icd_bits_saved is {saved}; expected a number from 0")
    return saved


def encode_labels(labels: Labels) -> Message:
    """Encode the known communities of a snapshot as a message."""
    extra = {"icd_snapshot_id": labels.snapshot_id, **window_headers(labels.window)}
    headers = event_headers(
        type=LABELS_TYPE,
        source=labels.source,
        id=f"{labels.snapshot_id}@labels",
        time=labels.window.end,
        extra=extra,
    )
    value = write_table(_node_table(labels.nodes, labels.labels))
    return Message(key=labels.graph.encode(), value=value, headers=headers)


def decode_labels(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> Labels:
    """Decode the labels of a message from outside.

    Raises:
        BadCommunities: the message breaks the contract; the text says how.
        LimitExceeded: it is above `limits`.
    """
    with refusing(BadCommunities, "the message cannot be read"):
        fields = EventHeaders(headers, LABELS_TYPE, limits, BadCommunities)
        nodes, labels, _ = _read_nodes(value, limits, BadCommunities)
        return Labels(
            graph=graph_of(key, limits, BadCommunities),
            snapshot_id=fields.text("icd_snapshot_id"),
            window=fields.window(),
            nodes=nodes,
            labels=labels,
            source=fields.text("ce_source"),
        )


def _node_table(nodes: pa.Array, labels: np.ndarray) -> pa.Table:
    return pa.table({"node": nodes, "community": pa.array(labels, pa.int32())})


def _with_ids(table: pa.Table, communities: Communities) -> pa.Table:
    """Return the table with stable ids, and what changed, in its metadata, if there are any."""
    known = {
        IDS: communities.community_ids,
        REPLACED: communities.replaced,
        MOVED: communities.moved,
        MOVED_BITS: communities.moved_bits,
    }
    metadata = {key: _as_text(numbers) for key, numbers in known.items() if numbers is not None}
    return table.replace_schema_metadata(metadata) if metadata else table


def stable_ids(metadata: Mapping[bytes, bytes]) -> NDArray[np.int64] | None:
    """Return the stable id of each community from the metadata of the table's schema, if any.

    Raises:
        BadCommunities: the value is not base64 of integers.
    """
    return _integers(metadata, IDS)


def _read_pairs(metadata: Mapping[bytes, bytes], key: bytes) -> NDArray[np.int64] | None:
    integers = _integers(metadata, key)
    if integers is not None and len(integers) % 2:
        raise BadCommunities(f"the metadata {key.decode()} is not base64 of pairs of int64")
    return None if integers is None else integers.reshape(-1, 2)


def _as_text(numbers: NDArray[np.int64] | NDArray[np.float64]) -> bytes:
    """Return numbers as base64 of their bytes, 8 each, little-endian, row by row."""
    return base64.b64encode(
        np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")).tobytes()
    )


def _integers(metadata: Mapping[bytes, bytes], key: bytes) -> NDArray[np.int64] | None:
    found = _numbers(metadata, key, np.dtype("<i8"))
    return None if found is None else found.astype(np.int64)


def _numbers(
    metadata: Mapping[bytes, bytes], key: bytes, kind: np.dtype[Any]
) -> NDArray[Any] | None:
    if key not in metadata:
        return None
    with refusing(BadCommunities, f"the metadata {key.decode()} is not base64 of {kind.name}"):
        found = np.frombuffer(base64.b64decode(metadata[key], validate=True), kind)
        return found.astype(kind.newbyteorder("="))


def _read_nodes(
    value: bytes | None, limits: Limits, error: type[BadInput]
) -> tuple[pa.Array, np.ndarray, Mapping[bytes, bytes]]:
    if not value:
        raise error("the message has no value; an Arrow table of nodes was expected")
    table = read_table(value, COLUMNS, limits, error).combine_chunks()
    kinds = table.schema.field("node").type, table.schema.field("community").type
    if not is_id_type(kinds[0]) or kinds[1] != pa.int32():
        raise error(f"node has type {kinds[0]} and community {kinds[1]}; expected ids and int32")
    if not table.num_rows or any(column.null_count for column in table.columns):
        raise error(f"the table has {table.num_rows} rows, or nulls among them")
    nodes = table["node"].combine_chunks()
    if not _differ(nodes):
        raise error("a node is in the table more than once; list each node of the snapshot once")
    return nodes, table["community"].to_numpy(), table.schema.metadata or {}


def _differ(nodes: pa.Array) -> bool:
    """Whether all ids differ; fast for ascending integers, as this library writes them."""
    if pa.types.is_integer(nodes.type):
        ids = nodes.to_numpy()
        if (ids[1:] > ids[:-1]).all():
            return True
    import pyarrow.compute as pc  # a tenth of the start of a subscriber

    return len(pc.unique(nodes)) == len(nodes)
