"""Claim check: bytes too large for a topic are stored aside, and the record claims them."""

from __future__ import annotations

from collections.abc import Callable

from stream_icd.errors import BrokerUnavailable, RecordTooLarge
from stream_icd.kafka.publisher import fits, record_limit, too_large
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.messages.claims import as_claim


class ClaimCheck:
    """Makes records fit their topics: what no message may hold is stored, and the record claims it.

    Args:
        pause: waits a moment, to ask again for a topic's limit while the broker is away; None:
            the broker is not waited for.
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
        """The record, or one that claims its bytes, which are safe by then.

        Raises:
            RecordTooLarge: there is no place for its bytes, or its headers alone are too large.
            StoreUnreachable, StoreUnwritable: the bytes could not be kept; try again.
            TopicMissing: its topic does not exist.
            BrokerUnavailable: nobody answers, and `pause` is None.
        """
        limit = self._limit(record.topic)
        if fits(record, limit):
            return record
        if self._claims.uri is not None and record.value:
            claimed = as_claim(record, self._claims)
            if fits(claimed, limit):
                return claimed
        raise too_large(record, limit)

    def learn(self, refused: RecordTooLarge) -> None:
        """Let no record pass any more that is as large as one that the broker refused.

        The topic's limit is asked for again, since it may be lower now. A broker that does not
        tell us the limit shows it only by what it refuses.

        Raises:
            TopicMissing, BrokerUnavailable: as their texts say.
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
