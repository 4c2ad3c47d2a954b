"""Broker guarantees; not every broker with Kafka's protocol gives all of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The guarantees of a broker.

    Attributes:
        software: "kafka", "tansu" (the embedded broker), "memory" (the in-memory one), or
            "unknown".
        hides_aborted: readers of committed records never see those of aborted transactions;
            exactly-once depends on this. None: not known.
        exact_end_offsets: a request for a partition's end offset returns the true end.
        exact_times: a request for the offset of a time uses the records' timestamps.
        enforces_message_size: the broker itself refuses records above `max.message.bytes`.
        joins_at_once: a group assigns partitions as soon as its members have asked for them; else
            only after half their session timeout.
    """

    software: str
    hides_aborted: bool | None
    exact_end_offsets: bool = True
    exact_times: bool = True
    enforces_message_size: bool = True
    joins_at_once: bool = True


KAFKA = Capabilities("kafka", hides_aborted=True)
MEMORY = Capabilities("memory", hides_aborted=True)
UNKNOWN = Capabilities("unknown", hides_aborted=None)
TANSU = Capabilities("tansu", False, False, False, False, False)
