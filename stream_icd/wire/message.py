"""A message of the wire contract, independent of any Kafka client."""

from __future__ import annotations

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message: `key` names the graph (UTF-8), `value` holds the bytes."""

    key: bytes
    value: bytes
    headers: Headers
