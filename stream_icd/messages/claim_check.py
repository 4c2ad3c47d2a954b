"""Claim check: stores values too large for a topic; the record refers to the stored object."""

from __future__ import annotations

import math
from collections.abc import Callable

from stream_icd.errors import BrokerUnavailable, RecordTooLarge
from stream_icd.kafka.publisher import fits, record_limit, too_large
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.messages.claims import as_claim


class ClaimCheck:
    """Makes records fit their topics: stores a value too large for a message, and claims it.

    Args:
        pause: waits before the topic's limit is requested again while the broker is unavailable;
            None: do not wait for the broker.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        claims: ClaimSettings | None = None,
        pause: Callable[[], object] | None = None,
    ) -> None:
        self._settings = settings
        self._claims = claims or ClaimSettings()
        self._pause = pause
        self._limits: dict[str, int] = {}

    def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record, or one that claims its value, which is durable by then.

        Raises:
            RecordTooLarge: there is no claim store, or the headers alone are too large.
            StoreUnreachable, StoreUnwritable: the value could not be stored; try again.
            TopicMissing: its topic does not exist.
            BrokerUnavailable: no broker answers, and `pause` is None.
        """
        limit = self._limit(record.topic)
        if fits(record, limit):
            return record
        if self._claims.uri is not None and record.value:
            claimed = as_claim(record, self._claims)
            if fits(claimed, limit):
                return claimed
        raise too_large(record, limit)

    def room(self, topic: str) -> float:
        """Return the maximum size of a record for a topic; infinite if values can be claimed.

        Raises:
            As `__call__`.
        """
        return self._limit(topic) if self._claims.uri is None else math.inf

    def learn(self, refused: RecordTooLarge) -> None:
        """Claim values of all records that are as large as one that the broker refused.

        The topic's limit is requested again, since it may be lower now. Some brokers do not report
        the limit; they only refuse records.

        Raises:
            TopicMissing, BrokerUnavailable: see these classes.
        """
        limit = record_limit(self._settings, refused.topic)
        self._limits[refused.topic] = min(limit, refused.size - 1)

    def _limit(self, topic: str) -> int:
        while topic not in self._limits:
            try:
                self._limits[topic] = record_limit(self._settings, topic)
            except BrokerUnavailable:
                if self._pause is None:
                    raise
                self._pause()
        return self._limits[topic]
