"""From a message of the wire contract to a record for Kafka."""

from __future__ import annotations

from stream_icd.kafka.record import OutgoingRecord
from stream_icd.wire.message import Message


def outgoing(topic: str, message: Message, partition: int | None = None) -> OutgoingRecord:
    """The message as a record for a topic; its key chooses the partition where none is given."""
    return OutgoingRecord(topic, message.value, message.key, message.headers, partition)
