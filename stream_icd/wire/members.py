"""Rows of members on the wire: a JSON object for each node, in a compacted topic (docs/wire.md)."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from stream_icd.core.communities import MOST_IDS
from stream_icd.core.errors import BadMember, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.core.members import MemberRow
from stream_icd.core.times import rfc3339
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    JSON_TYPE,
    EventHeaders,
    Message,
    event_message,
    graph_and_node,
    node_key,
    refusing,
)

_MEMBER_TYPE = "stream_icd.member.v1"
_MOST_BYTES = 64 << 10


def encode_member(member: MemberRow, event_id: str) -> Message:
    """Encode a row; `event_id` is that of the result that it is from, and its place there."""
    value = {
        "graph": member.graph,
        "node": member.node,
        "community_id": member.community_id,
        "name": member.name,
        "probability": member.probability,
        "since": rfc3339(member.since),
        "as_of": rfc3339(member.as_of),
        "snapshot_id": member.snapshot_id,
    }
    return event_message(
        node_key(member.graph, member.node),
        json.dumps(value, ensure_ascii=False).encode(),
        type=_MEMBER_TYPE,
        source="stream_icd/rows",
        id=event_id,
        time=member.as_of,
        extra={},
        content_type=JSON_TYPE,
    )


def graph_in_key(key: bytes | None, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the graph that the key of a row names; raises as `decode_member`."""
    with refusing(BadMember, "the key cannot be read"):
        return graph_and_node(key, limits, BadMember)[0]


def decode_member(
    key: bytes | None, value: bytes, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> MemberRow:
    """Decode a row with a value; raises BadMember and LimitExceeded, see `wire.message`."""
    with refusing(BadMember, "the row cannot be read"):
        graph = graph_in_key(key, limits)
        EventHeaders(headers, _MEMBER_TYPE, limits, BadMember, JSON_TYPE)
        if len(value) > _MOST_BYTES:
            raise LimitExceeded(f"the row has {len(value)} bytes; at most {_MOST_BYTES}")
        fields = json.loads(value)
        if not isinstance(fields, dict) or fields.get("graph") != graph:
            raise BadMember(f"the value is no JSON object of graph {graph!r:.80}")
        member = MemberRow(
            graph=graph,
            node=_of(fields, "node", int, str),
            community_id=_of(fields, "community_id", int),
            since=_time(fields, "since"),
            as_of=_time(fields, "as_of"),
            snapshot_id=_of(fields, "snapshot_id", str),
            probability=_of(fields, "probability", float, int, type(None)),
            name=_of(fields, "name", str, type(None)),
        )
        if node_key(graph, member.node) != key:
            raise BadMember(f"the key is {key!r:.80}, but the node {member.node!r:.80}")
        _check(member)
        return member


def _check(member: MemberRow) -> None:
    own = member.probability
    if not 0 <= member.community_id < MOST_IDS:
        raise BadMember(f"community_id {member.community_id} is not in 0..{MOST_IDS - 1}")
    if own is not None and not (math.isfinite(own) and 0 <= own <= 1):
        raise BadMember(f"the probability is {own}; expected a number from 0 to 1")
    if isinstance(member.node, int) and not -(2**63) <= member.node < 2**64:
        raise BadMember(f"node {member.node} has more than 64 bits")


def _of(fields: dict[str, Any], name: str, *kinds: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise BadMember(f"{name} is {value!r:.80}; expected {kinds[0].__name__}")
    return value


def _time(fields: dict[str, Any], name: str) -> datetime:
    time = datetime.fromisoformat(_of(fields, name, str))
    if time.tzinfo is None:
        raise BadMember(f"{name} is {fields[name]!r:.80}; it needs a time zone, such as Z")
    return time.astimezone(UTC)
