"""The topic of events, read as a tracker's memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import structlog

from stream_icd.errors import BadInput, OffsetGone
from stream_icd.events import CommunityEvents
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.pipeline.claim_settings import ClaimSettings
from stream_icd.pipeline.claims import decoded
from stream_icd.pipeline.seen_results import SeenResults, result_of
from stream_icd.wire.events import decode_events, is_late
from stream_icd.wire.limits import Limits


class EventsTopic:
    """Reads what is new in the topic since it was read last; the first time, all there is.

    Args:
        graph: look at this graph's only; None for all.
        windows: how many of a graph's last windows are wanted.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        graph: str | None,
        windows: int,
        limits: Limits,
        claims: ClaimSettings,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._key = None if graph is None else graph.encode()
        self._windows = windows
        self._limits = limits
        self._claims = claims
        self._positions: dict[int, int] = {}

    def news(self, seen: SeenResults) -> Iterator[CommunityEvents]:
        """The last tracked windows of each graph that has news, in order; `seen` learns all.

        Raises:
            TopicMissing, BrokerUnavailable: as their texts say.
        """
        try:
            latest = self._read(seen)
        except OffsetGone:  # retention overtook us; what is left is enough
            self._positions.clear()
            latest = self._read(seen)
        for records in latest.values():
            for record in records:
                try:
                    yield decoded(record, decode_events, self._claims, self._limits)
                except BadInput as error:
                    log = structlog.get_logger()
                    log.warning("not an events message", place=record.place, reason=str(error))

    def _read(self, seen: SeenResults) -> dict[bytes | None, deque[Record]]:
        latest: dict[bytes | None, deque[Record]] = {}
        start = self._positions.copy()
        with open_reader(self._settings, self._topic, start, until="end") as records:
            for record in records:
                self._positions[record.partition] = record.offset + 1
                if self._key not in (None, record.key) or not seen.is_new(result_of(record)):
                    continue
                if not is_late(record.headers):
                    newest = latest.setdefault(record.key, deque(maxlen=self._windows))
                    if newest and result_of(newest[-1]).name == result_of(record).name:
                        newest.pop()  # it was revised
                    newest.append(record)
        return latest
