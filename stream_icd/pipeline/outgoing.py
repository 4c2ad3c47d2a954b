"""From a message of the wire contract to a record for Kafka."""

from __future__ import annotations

from stream_icd.kafka.record import OutgoingRecord
from stream_icd.wire.message import Message


def outgoing(topic: str, message: Message) -> OutgoingRecord:
    """The message as a record for a topic; its key chooses the partition."""
    return OutgoingRecord(topic, message.value, message.key, message.headers)
