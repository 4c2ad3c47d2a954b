"""Known communities of nodes: a JSON object for each node, in a compacted topic (docs/wire.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from stream_icd.core.errors import BadKnown
from stream_icd.core.headers import Headers
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

_KNOWN_TYPE = "stream_icd.known.v1"
_MOST_BYTES, MOST_LABEL_BYTES = 64 << 10, 1000


@dataclass(frozen=True, slots=True)
class KnownNode:
    """The known community of one node, whose id is text; None: it is known no longer.

    Nodes of a graph with the same label are in one community.
    """

    graph: str
    node: str
    community: str | None


def encode_known(known: KnownNode, at: datetime, source: str) -> Message:
    """Encode what `source`, a URI reference, knows of a node since `at`.

    A record with the key and no value takes it back. Raises `BadKnown` if the label is too long.
    """
    key = node_key(known.graph, known.node)
    return event_message(
        key,
        json.dumps({"community": _checked(known.community)}, ensure_ascii=False).encode(),
        type=_KNOWN_TYPE,
        source=source,
        id=f"{key.decode()}@{at.isoformat()}",
        time=at,
        extra={},
        content_type=JSON_TYPE,
    )


def decode_known(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> KnownNode:
    """Decode the known community of a node, a text or a number; None without a value.

    Raises BadKnown and LimitExceeded, see `wire.message`.
    """
    with refusing(BadKnown, "the known community cannot be read"):
        graph, node = graph_and_node(key, limits, BadKnown)
        if value is None:
            return KnownNode(graph, node.decode(), None)
        EventHeaders(headers, _KNOWN_TYPE, limits, BadKnown, JSON_TYPE)
        if len(value) > _MOST_BYTES:
            raise BadKnown(f"the value has {len(value)} bytes; at most {_MOST_BYTES}")
        fields = json.loads(value)
        if not isinstance(fields, dict):
            raise BadKnown('the value is no JSON object, such as {"community": "east"}')
        return KnownNode(graph, node.decode(), _checked(fields.get("community")))


def _checked(community: object) -> str:
    if isinstance(community, bool) or not isinstance(community, str | int) or community == "":
        raise BadKnown(f"community is {community!r:.80}; expected a text or a whole number")
    label = str(community)
    if len(label.encode()) > MOST_LABEL_BYTES:
        raise BadKnown(f"community {label:.80} has more than {MOST_LABEL_BYTES} bytes")
    return label
