"""Attributes of one node as a Kafka message: CloudEvents headers, and JSON as the value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from stream_icd.core.errors import BadAttributes, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import JSON_TYPE, EventHeaders, Message, event_message, refusing
from stream_icd.wire.node_keys import graph_and_node, node_key

_ATTRIBUTES_TYPE = "stream_icd.attributes.v1"
MOST_BYTES = 64 << 10
MOST_ATTRIBUTES = 64
COMMUNITY = "community"
"""The attribute, in the topic of known nodes, that says with which other nodes a node is."""


@dataclass(frozen=True, slots=True)
class NodeAttributes:
    """What is known of one node, its id as text, besides its edges."""

    graph: str
    node: str
    values: Mapping[str, str]  # by attribute; empty: nothing is known of the node (any more)


def encode_attributes(attributes: NodeAttributes, at: datetime, source: str) -> Message:
    """Encode what `source`, a URI reference, knows of a node since `at`.

    A record with the key and no value takes it back. Raises `LimitExceeded`, see docs/wire.md.
    """
    key = node_key(attributes.graph, attributes.node)
    value = json.dumps(dict(attributes.values), ensure_ascii=False).encode()
    _check_size(len(key), DEFAULT_LIMITS.name_bytes, "key")
    _check_size(len(value), MOST_BYTES, "value")
    _check_count(attributes.values)
    return event_message(
        key,
        value,
        type=_ATTRIBUTES_TYPE,
        source=source,
        id=f"{key.decode()}@{at.isoformat()}",
        time=at,
        extra={},
        content_type=JSON_TYPE,
    )


def decode_attributes(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> NodeAttributes:
    """Decode the attributes of a node; without a value, nothing is known of it any more.

    Values are compared as text: numbers and truth values are read as JSON writes them; null and an
    empty text are left out. Raises BadAttributes and LimitExceeded, see `wire.message`.
    """
    with refusing(BadAttributes, "the attributes cannot be read"):
        _check_size(len(key or b""), limits.name_bytes, "key")
        graph, node = graph_and_node(key, limits, BadAttributes)
        if value is None:
            return NodeAttributes(graph, node.decode(), {})
        EventHeaders(headers, _ATTRIBUTES_TYPE, limits, BadAttributes, JSON_TYPE)
        _check_size(len(value), MOST_BYTES, "value")
        said = json.loads(value)
        if not isinstance(said, dict):
            raise BadAttributes('the value is no JSON object, such as {"country": "US"}')
        _check_count(said)
        values = {name: _text(name, given) for name, given in said.items()}
        known = {name: text for name, text in values.items() if text}
        return NodeAttributes(graph, node.decode(), known)


def _text(attribute: str, value: object) -> str:
    attribute.encode()  # JSON can name lone surrogates, which are no text
    if value is None:
        return ""
    if not isinstance(value, str | bool | int | float):
        raise BadAttributes(f"{attribute!r:.80} is no text, number or truth value")
    text = value if isinstance(value, str) else json.dumps(value)
    text.encode()
    return text


def _check_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise LimitExceeded(f"the {what} of a node's attributes has {size} bytes; at most {limit}")


def _check_count(values: Mapping[str, object]) -> None:
    if len(values) > MOST_ATTRIBUTES:
        raise LimitExceeded(f"a node has {len(values)} attributes; at most {MOST_ATTRIBUTES}")
