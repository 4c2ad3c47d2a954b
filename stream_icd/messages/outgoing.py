"""Converts a message of the wire contract to a Kafka record."""

from __future__ import annotations

from stream_icd.kafka.record import OutgoingRecord
from stream_icd.wire.message import Message


def outgoing(topic: str, message: Message, partition: int | None = None) -> OutgoingRecord:
    """Return the message as a record for a topic; by default its key selects the partition."""
    return OutgoingRecord(topic, message.value, message.key, message.headers, partition)
