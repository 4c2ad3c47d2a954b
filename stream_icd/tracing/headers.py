"""The trace context of a message: the distributed tracing extension of CloudEvents.

In Kafka's binary mode, the attributes `traceparent` and `tracestate` (W3C Trace Context) are the
headers `ce_traceparent` and `ce_tracestate`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_icd.kafka.record import Headers

FIELDS = ("traceparent", "tracestate")

MOST_STATE_BYTES = 512
"""A longer `tracestate` is left out. Of such, W3C Trace Context wants as many bytes kept."""

MOST_BYTES = 1024
"""What the trace context of a message takes, at most."""


def context_of(headers: Headers) -> dict[str, str]:
    """Return the fields of the trace context in the headers; empty if there is none.

    Without those of CloudEvents, those count that other programs write for every message.

    >>> context_of((("ce_traceparent", b"00-1-2-01"), ("traceparent", b"00-3-4-01")))
    {'traceparent': '00-1-2-01'}
    """
    said = dict(headers)
    prefix = "ce_" if "ce_traceparent" in said else ""
    found = {name: said.get(f"{prefix}{name}") for name in FIELDS}
    return {
        name: value.decode("ascii", errors="replace")
        for name, value in found.items()
        if value is not None
    }


def with_context(headers: Headers, context: Mapping[str, str]) -> Headers:
    """Return the headers with this trace context instead of the one that they had.

    >>> with_context((("ce_id", b"1"),), {"traceparent": "00-1-2-01"})
    (('ce_id', b'1'), ('ce_traceparent', b'00-1-2-01'))
    """
    others = tuple(one for one in headers if one[0] not in ("ce_traceparent", "ce_tracestate"))
    ours = tuple((f"ce_{name}", context[name].encode()) for name in FIELDS if name in context)
    return (*others, *(one for one in ours if len(one[1]) <= MOST_STATE_BYTES))
