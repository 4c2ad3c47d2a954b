"""What a consumer reports about a batch after its commit."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.kafka.record import OutgoingRecord, Record


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch whose results were published and whose offsets were committed."""

    records: tuple[Record, ...]
    outgoing: tuple[OutgoingRecord, ...]
    handle_seconds: float
    publish_seconds: float
