"""Communities and labels on the wire: a table of nodes, one message per snapshot (docs/wire.md)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.core.communities import STAGES, Communities, EvidenceStrength, Labels, MemoryUse
from stream_icd.core.errors import BadCommunities
from stream_icd.core.headers import Headers
from stream_icd.core.node_ids import is_id_type
from stream_icd.wire.arrow_stream import read_table, write_table
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    EVENT_TYPES,
    EventHeaders,
    Field,
    Fields,
    Message,
    event_message,
    graph_name_of,
    headers_of,
    refusing,
    result_id,
)

_COLUMNS = {"node": True, "community": True}
MEMBERSHIP = {
    "community_id": pa.int64(),
    "probability": pa.float32(),
    "second_id": pa.int64(),
    "second_probability": pa.float32(),
}
"""Further columns of communities, which those of earlier versions lack; null where not known."""
_IDS, _REPLACED = b"icd_community_ids", b"icd_replaced"
_MOVED, _MOVED_BITS = b"icd_moved", b"icd_moved_bits"
_LEVELS = b"icd_levels"
"""Keys in the metadata of the table's schema, which a reader may ignore."""

_INTEGERS, _NUMBERS = np.dtype("<i8"), np.dtype("<f8")

_REQUIRED: Fields = {
    "icd_model": Field("model"),
    "icd_k": Field("n_communities", "whole", least=1),
    "icd_n_edges": Field("n_edges", "whole", least=1),
    "icd_modularity": Field("modularity", "number"),
    "icd_ncut": Field("ncut", "number"),
    "icd_detected_at": Field("detected_at", "time"),
}
_OPTIONAL: Fields = {
    "icd_revision": Field("revision", optional=True, absent=""),
    "icd_snapshot_place": Field("snapshot_place", optional=True, absent=""),
    "icd_content": Field("content", optional=True, absent=""),
    "icd_k_given": Field("k_given", "whole", optional=True, least=1),
    "icd_seed": Field("seed", "whole", optional=True),
    "icd_memory": Field("memory", "word", optional=True, words=get_args(MemoryUse)),
    "icd_horizon": Field("horizon", "number", optional=True, least=1),
    "icd_horizon_for": Field("horizon_for", "whole", optional=True, least=1),
    "icd_predicted_bits": Field("predicted_bits", "number", optional=True),
    "icd_evidence": Field("evidence", "word", optional=True, words=get_args(EvidenceStrength)),
    "icd_bits_saved": Field("bits_saved", "number", optional=True, least=0),
}
"""The fields of communities that a header holds each. A field that is added here needs an attribute
of `Communities`, a row in docs/wire.md, and one in docs/asyncapi.yaml; tests compare them."""

SUMMARY = {
    "evidence": pa.string(),
    "bits_saved": pa.float64(),
    "horizon": pa.float64(),
    "horizon_for": pa.float64(),
    "predicted_bits": pa.float64(),
}
"""The fields that rows of nodes repeat: in the archive, in `subscribe` and on the live page."""


def encode_communities(communities: Communities) -> Message:
    """Encode communities as a message; its headers summarise the result without the table."""
    extra = {
        **headers_of(_REQUIRED, communities),
        **{f"icd_ms_{stage}": f"{communities.milliseconds[stage]:.3f}" for stage in STAGES},
        **headers_of(_OPTIONAL, communities),
    }
    return event_message(
        communities.graph.encode(),
        write_table(membership_table(communities).replace_schema_metadata(_metadata(communities))),
        type=EVENT_TYPES["communities"],
        source=f"stream_icd/models/{communities.model}",
        id=result_id(communities.snapshot_id, communities.model, communities.revision),
        time=communities.window,
        snapshot_id=communities.snapshot_id,
        extra=extra,
    )


def decode_communities(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> Communities:
    """Decode communities; raises BadCommunities and LimitExceeded, see `wire.message`."""
    with refusing(BadCommunities, "the message cannot be read"):
        fields = EventHeaders(headers, EVENT_TYPES["communities"], limits, BadCommunities)
        table = _read_nodes(value, _COLUMNS | dict.fromkeys(MEMBERSHIP, False), limits)
        nodes, metadata = table["node"].combine_chunks(), table.schema.metadata or {}
        attributes = fields.read({**_REQUIRED, **_OPTIONAL})
        k = attributes.pop("n_communities")  # the table says it, too
        communities = Communities(
            graph=graph_name_of(key, limits, BadCommunities),
            snapshot_id=fields.text("icd_snapshot_id"),
            window=fields.window(),
            nodes=nodes,
            labels=table["community"].to_numpy(),
            milliseconds={stage: fields.number(f"icd_ms_{stage}") for stage in STAGES},
            community_ids=stable_ids(metadata),
            replaced=_read_pairs(metadata, _REPLACED),
            moved=_read_pairs(metadata, _MOVED),
            moved_bits=_numbers(metadata, _MOVED_BITS, _NUMBERS),
            levels=_read_levels(metadata, k),
            **_read_memberships(table),
            **attributes,
        )
        _check_ids(communities, table)
        if communities.n_communities != k:
            raise BadCommunities(
                f"header icd_k says {k} communities; the table has {communities.n_communities}"
            )
        return communities


def encode_labels(labels: Labels) -> Message:
    """Encode the known communities of a snapshot as a message."""
    return event_message(
        labels.graph.encode(),
        write_table(_node_table(labels)),
        type=EVENT_TYPES["labels"],
        source=labels.source,
        id=f"{labels.snapshot_id}@labels",
        time=labels.window,
        snapshot_id=labels.snapshot_id,
        extra={},
    )


def decode_labels(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> Labels:
    """Decode labels; raises as `decode_communities`."""
    with refusing(BadCommunities, "the message cannot be read"):
        fields = EventHeaders(headers, EVENT_TYPES["labels"], limits, BadCommunities)
        table = _read_nodes(value, _COLUMNS, limits)
        return Labels(
            graph=graph_name_of(key, limits, BadCommunities),
            snapshot_id=fields.text("icd_snapshot_id"),
            window=fields.window(),
            nodes=table["node"].combine_chunks(),
            labels=table["community"].to_numpy(),
            source=fields.text("ce_source"),
        )


def _node_table(result: Communities | Labels) -> pa.Table:
    return pa.table({"node": result.nodes, "community": pa.array(result.labels, pa.int32())})


def membership_table(communities: Communities) -> pa.Table:
    """Return the table of a communities message, without metadata: a row for each node."""
    table, seconds = _node_table(communities), communities.second_ids
    second = (seconds, communities.second_probabilities)
    columns = (communities.ids_of_nodes, communities.probabilities, *second)
    absent = None if seconds is None else seconds < 0
    for values, (name, kind) in zip(columns, MEMBERSHIP.items(), strict=True):
        is_null = absent if name.startswith("second") else None
        table = table.append_column(name, _column(values, kind, is_null, communities.n_nodes))
    return table


def _column(
    values: NDArray[Any] | None, kind: pa.DataType, is_null: NDArray[np.bool_] | None, n_rows: int
) -> pa.Array:
    """Return a column; what is under a null is a part of the bytes, and is 0."""
    if values is None:
        values, is_null = np.zeros(n_rows), np.ones(n_rows, np.bool_)
    elif is_null is not None:
        values = np.where(is_null, 0, values)
    return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=is_null)


def _metadata(communities: Communities) -> dict[bytes, bytes] | None:
    arrays = {
        _IDS: communities.community_ids,
        _REPLACED: communities.replaced,
        _MOVED: communities.moved,
        _MOVED_BITS: communities.moved_bits,
        _LEVELS: communities.levels,
    }
    metadata = {
        # 8 bytes each, row by row
        key: base64.b64encode(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
        for key, numbers in arrays.items()
        if numbers is not None
    }
    return metadata or None


def stable_ids(metadata: Mapping[bytes, bytes]) -> Ids | None:
    """Return the stable id of each community from the metadata of the table's schema, if any."""
    return _numbers(metadata, _IDS, _INTEGERS)


def _read_pairs(metadata: Mapping[bytes, bytes], key: bytes) -> Ids | None:
    integers = _numbers(metadata, key, _INTEGERS)
    if integers is not None and len(integers) % 2:
        raise BadCommunities(f"the metadata {key.decode()} is not base64 of pairs of int64")
    return None if integers is None else integers.reshape(-1, 2)


def _read_levels(metadata: Mapping[bytes, bytes], k: int) -> Ids | None:
    integers = _numbers(metadata, _LEVELS, _INTEGERS)
    if integers is not None and len(integers) % max(k, 1):
        raise BadCommunities(f"the metadata icd_levels have not {k} integers for each level")
    return None if integers is None else integers.reshape(-1, max(k, 1))


def _numbers(
    metadata: Mapping[bytes, bytes], key: bytes, kind: np.dtype[Any]
) -> NDArray[Any] | None:
    if key not in metadata:
        return None
    with refusing(BadCommunities, f"the metadata {key.decode()} is not base64 of {kind.name}"):
        numbers = np.frombuffer(base64.b64decode(metadata[key], validate=True), kind)
        return numbers.astype(kind.newbyteorder("="))


def _read_nodes(value: bytes | None, columns: Mapping[str, bool], limits: Limits) -> pa.Table:
    table = read_table(value, columns, limits, BadCommunities).combine_chunks()
    node, community = table.schema.field("node").type, table.schema.field("community").type
    if not is_id_type(node) or community != pa.int32():
        raise BadCommunities(
            f"node has type {node!s:.80} and community {community!s:.80}; expected ids and int32"
        )
    if not table.num_rows or any(table[name].null_count for name in _COLUMNS):
        raise BadCommunities(f"the table has {table.num_rows} rows, or nulls among them")
    if not _differ(table["node"].combine_chunks()):
        raise BadCommunities(
            "a node is in the table more than once; list each node of the snapshot once"
        )
    return table


def _read_memberships(table: pa.Table) -> dict[str, Any]:
    """Return the columns of `MEMBERSHIP` but `community_id`, as `Communities` has them."""
    own, ids, of_ids = (
        _known(table, name) for name in ("probability", "second_id", "second_probability")
    )
    if ids is not None and of_ids is not None:
        absent = np.isnan(ids)
        if (absent != np.isnan(of_ids)).any():
            raise BadCommunities("second_id and second_probability are not null in the same rows")
        ids = np.where(absent, NOBODY, ids).astype(np.int64)
        of_ids = np.where(absent, 0, of_ids).astype(np.float32)
    return {"probabilities": own, "second_ids": ids, "second_probabilities": of_ids}


def _known(table: pa.Table, name: str) -> NDArray[Any] | None:
    """Return a column of `MEMBERSHIP`, NaN for null; None if it is not there, or all null."""
    if name not in table.column_names:
        return None
    column = table[name].combine_chunks()
    if column.type != MEMBERSHIP[name]:
        raise BadCommunities(f"{name} has type {column.type!s:.80}; expected {MEMBERSHIP[name]}")
    if column.null_count == len(column):
        return None
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _check_ids(communities: Communities, table: pa.Table) -> None:
    if "community_id" not in table.column_names:
        return
    column, ids = _known(table, "community_id"), communities.ids_of_nodes
    is_same = column is ids if column is None or ids is None else np.array_equal(column, ids)
    if not is_same:
        raise BadCommunities("community_id is not what the metadata icd_community_ids say")


def _differ(nodes: pa.Array) -> bool:
    """Whether all ids differ; fast for ascending integers, as this library writes them."""
    if pa.types.is_integer(nodes.type):
        ids = nodes.to_numpy()
        if (ids[1:] > ids[:-1]).all():
            return True
    import pyarrow.compute as pc  # a tenth of the start of a subscriber

    return len(pc.unique(nodes)) == len(nodes)
