"""Messages about single nodes: a JSON object for each, in compacted topics (docs/wire.md).

A row of members is the community in which a node was found; a known node is one whose community
people know.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from stream_icd.core.communities import MOST_IDS
from stream_icd.core.errors import BadInput, BadKnown, BadMember, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.core.times import rfc3339
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    JSON_TYPE,
    EventHeaders,
    Message,
    event_message,
    graph_name_of,
    refusing,
)

_MEMBER_TYPE, _KNOWN_TYPE = "stream_icd.member.v1", "stream_icd.known.v1"
_MOST_BYTES, _MOST_LABEL_BYTES = 64 << 10, 1000


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A node of a graph, and the community that it is in.

    Attributes:
        node: the source's own id.
        since: start of the window in which it came into the community.
        as_of: end of the window that said this first.
        probability: how probable it is that it is in the community; None if that is not known.
        name: of the community, if it has one.
    """

    graph: str
    node: int | str
    community_id: int
    since: datetime
    as_of: datetime
    snapshot_id: str
    probability: float | None = None
    name: str | None = None


def node_key(graph: str, node: int | str) -> bytes:
    """Return the key of the messages about a node.

    >>> node_key("a/b", "10.0.0.0/8")
    b'a%2Fb/10.0.0.0/8'
    """
    return f"{quote(graph, safe='')}/{node}".encode()


def _graph_and_node(key: bytes | None, limits: Limits, error: type[BadInput]) -> tuple[str, bytes]:
    """Return the graph and the node, UTF-8, that a key names; raises as `graph_name_of`."""
    quoted, _, node = (key or b"").partition(b"/")
    if not node:
        raise error(f"the key is {key!r:.80}; expected GRAPH/NODE, such as as733/7018")
    return graph_name_of(unquote(quoted, errors="strict").encode(), limits, error), node


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
        return _graph_and_node(key, limits, BadMember)[0]


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


class _KnownNode(NamedTuple):
    """The known community of one node. Nodes of a graph with the same label are in one community.
    None: it is known no longer."""

    graph: str
    node: str
    community: str | None


def encode_known(graph: str, node: str, community: str, at: datetime, source: str) -> Message:
    """Encode which community `source`, a URI reference, knows of a node since `at`.

    A record with the key and no value takes it back. Raises `BadKnown` if the label is too long.
    """
    key = node_key(graph, node)
    return event_message(
        key,
        json.dumps({"community": _label(community)}, ensure_ascii=False).encode(),
        type=_KNOWN_TYPE,
        source=source,
        id=f"{key.decode()}@{at.isoformat()}",
        time=at,
        extra={},
        content_type=JSON_TYPE,
    )


def decode_known(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> _KnownNode:
    """Decode the known community of a node, a text or a number; None without a value.

    Raises BadKnown and LimitExceeded, see `wire.message`.
    """
    with refusing(BadKnown, "the known community cannot be read"):
        graph, node = _graph_and_node(key, limits, BadKnown)
        if value is None:
            return _KnownNode(graph, node.decode(), None)
        EventHeaders(headers, _KNOWN_TYPE, limits, BadKnown, JSON_TYPE)
        if len(value) > _MOST_BYTES:
            raise BadKnown(f"the value has {len(value)} bytes; at most {_MOST_BYTES}")
        fields = json.loads(value)
        if not isinstance(fields, dict):
            raise BadKnown('the value is no JSON object, such as {"community": "east"}')
        return _KnownNode(graph, node.decode(), _label(fields.get("community")))


def _label(community: object) -> str:
    if isinstance(community, bool) or not isinstance(community, str | int) or community == "":
        raise BadKnown(f"community is {community!r:.80}; expected a text or a whole number")
    label = str(community)
    if len(label.encode()) > _MOST_LABEL_BYTES:
        raise BadKnown(f"community {label:.80} has more than {_MOST_LABEL_BYTES} bytes")
    return label
