"""What may be relied on: not everything that speaks Kafka's protocol keeps all of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a broker can promise.

    Attributes:
        software: "kafka", "tansu" (the embedded broker), or "memory" (the in-memory one).
        hides_aborted: readers of committed records never see an aborted transaction's, which is
            what exactly-once rests on.
        exact_end_offsets: asking for the end of a partition gives its end.
        exact_times: asking for the offset of a time goes by the records' timestamps.
        enforces_message_size: the broker itself refuses records above `max.message.bytes`.
        expires: retention removes old records, and compaction superseded ones.
        persistent: records survive a restart of the broker.
    """

    software: str
    hides_aborted: bool
    exact_end_offsets: bool
    exact_times: bool
    enforces_message_size: bool
    expires: bool
    persistent: bool


KAFKA = Capabilities("kafka", True, True, True, True, True, True)
TANSU = Capabilities("tansu", False, False, False, False, False, False)
MEMORY = Capabilities("memory", True, True, True, True, False, False)
