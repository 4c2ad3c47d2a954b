"""From a message of the wire contract to a record for Kafka that its topic takes."""

from __future__ import annotations

from stream_icd.errors import BrokerUnavailable
from stream_icd.kafka.producer import fits, record_limit
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.pipeline.claim_settings import ClaimSettings
from stream_icd.pipeline.claims import put_aside
from stream_icd.wire.message import Message


def outgoing(topic: str, message: Message, partition: int | None = None) -> OutgoingRecord:
    """The message as a record for a topic; its key chooses the partition where none is given."""
    return OutgoingRecord(topic, message.value, message.key, message.headers, partition)


class Fit:
    """Makes records fit their topics: what no message may hold goes aside, the claim in its place.

    Without a place for it, records are given back as they are, and the publisher refuses them.
    """

    def __init__(self, settings: KafkaSettings, claims: ClaimSettings | None = None) -> None:
        self._settings = settings
        self._claims = claims or ClaimSettings()
        self._limits: dict[str, int] = {}

    def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
        """The record, or one that claims its bytes, which are safe by then.

        Raises:
            StoreUnreachable, StoreUnwritable: the bytes could not be kept; try again.
            TopicMissing: its topic does not exist.
        """
        nowhere, nothing = self._claims.uri is None, not record.value
        if nowhere or nothing or fits(record, self._limit(record.topic)):
            return record
        return put_aside(record, self._claims)

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            try:
                self._limits[topic] = record_limit(self._settings, topic)
            except BrokerUnavailable:  # whoever publishes waits for it
                return self._settings.max_message_bytes
        return self._limits[topic]
