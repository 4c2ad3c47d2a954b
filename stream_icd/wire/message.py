"""A message as the wire contract speaks of it, before any Kafka client is involved."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message: `key` names the graph (UTF-8), `value` holds the bytes."""

    key: bytes
    value: bytes
    headers: Headers
