"""Traces with OpenTelemetry, from the producer of a snapshot to the subscriber of its results.

Spans follow OpenTelemetry's conventions for messages. A message carries its trace context by the
distributed tracing extension of CloudEvents: in Kafka's binary mode, the attributes `traceparent`
and `tracestate` (W3C Trace Context) are the headers `ce_traceparent` and `ce_tracestate`.

OpenTelemetry is imported when the first `Tracing` is made, and only then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stream_icd.core.headers import Headers
from stream_icd.core.imports import needs_extra
from stream_icd.core.settings import Settings
from stream_icd.core.version import __version__
from stream_icd.kafka.record import OutgoingRecord, Record

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, TracerProvider


MS = 10**6
"""Nanoseconds in a millisecond."""

_FIELDS = ("traceparent", "tracestate")
GROUP = "messaging.consumer.group.name"
_KINDS = {"create": "create", "publish": "send", "receive": "receive"}
"""What kind of operation each is, by OpenTelemetry's conventions; all others process a message."""

_MOST_STATE_BYTES = 512
"""A longer `tracestate` is left out: W3C Trace Context wants at least so many bytes kept."""

MOST_BYTES = 1024
"""What the trace context of a message takes, at most."""


class TraceSettings(Settings):
    """Traces: `STREAM_ICD_TRACES`, or `traces` in the table `[traces]`.

    Where they go is set by the variables of OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT`.
    """

    table: ClassVar[str] = "traces"

    traces: Literal["off", "on"] = "off"


class Tracing:
    """Makes the spans of one program, for this provider, or the one that the program has set.

    Raises `MissingExtra` without OpenTelemetry.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        with needs_extra("otel", "opentelemetry"):
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api = trace
        self._tracer = trace.get_tracer("stream_icd", __version__, provider)
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def if_on(cls) -> Tracing | None:
        """Return what makes spans, if `STREAM_ICD_TRACES` is on; raises as `traces_of`."""
        return cls() if TraceSettings().traces == "on" else None

    def created(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return a record of a producer with the context of a span that says that it was made."""
        span = self._tracer.start_span(
            f"create {record.topic}",
            kind=self._api.SpanKind.PRODUCER,
            attributes=_of_message("create", record),
        )
        span.end()
        return self.sent_by(span, record)

    def processed(
        self,
        operation: str,
        record: Record,
        started_ns: int,
        ended_ns: int,
        links: Collection[SpanContext] = (),
        stages: Mapping[str, float] | None = None,
        attributes: Mapping[str, Any] | None = None,
        error: Exception | None = None,
    ) -> Span:
        """Return the span of a processed record, a child of the span that made its message.

        Times are nanoseconds since 1970. `links` are spans whose results were used, too; `stages`
        their milliseconds, one after the other, each a span of its own; `error` says why there is
        no result.
        """
        span = self._tracer.start_span(
            f"{operation} {record.topic}",
            self._propagator.extract(context_of(record.headers)),
            kind=self._api.SpanKind.CONSUMER,
            attributes={**_of_message(operation, record), **(attributes or {})},
            links=self._links(links),
            start_time=started_ns,
        )
        context = self._api.set_span_in_context(span)
        for stage, milliseconds in (stages or {}).items():
            child = self._tracer.start_span(stage, context, start_time=started_ns)
            started_ns += round(MS * milliseconds)
            child.end(started_ns)
        if error is not None:
            span.record_exception(error, timestamp=ended_ns)
            span.set_status(self._api.StatusCode.ERROR, str(error))
            span.set_attribute("error.type", type(error).__name__)
        span.end(ended_ns)
        return span

    def published(self, seconds: float, links: Collection[SpanContext]) -> None:
        """Make the span of a batch that was just published, with links to its records."""
        self.took(
            "publish",
            seconds,
            kind=self._api.SpanKind.CLIENT,
            links=self._links(links),
            attributes={**_of_operation("publish"), "messaging.batch.message_count": len(links)},
        )

    @contextmanager
    def doing(self, name: str) -> Iterator[None]:
        """Make the span of what the block does; messages that are sent in it are of its trace."""
        with self._tracer.start_as_current_span(name):
            yield

    def took(self, stage: str, seconds: float, **about: Any) -> None:
        """Make the span of a stage of the present span, which ends now."""
        ended = time.time_ns()
        span = self._tracer.start_span(stage, start_time=ended - round(1e9 * seconds), **about)
        span.end(ended)

    def say(self, attributes: Mapping[str, str | int]) -> None:
        """Add attributes of this project to the present span."""
        span = self._api.get_current_span()
        span.set_attributes({f"stream_icd.{name}": value for name, value in attributes.items()})

    @contextmanager
    def receiving(self, record: Record, group: str | None = None) -> Iterator[None]:
        """Make the span of a result while a subscriber, or a group of them, reads it."""
        with self._tracer.start_as_current_span(
            f"receive {record.topic}",
            self._propagator.extract(context_of(record.headers)),
            kind=self._api.SpanKind.CONSUMER,
            attributes={**_of_message("receive", record), **({GROUP: group} if group else {})},
        ):
            yield

    def maker_of(self, headers: Headers) -> SpanContext | None:
        """Return the span that made a message; None if its headers do not say it."""
        context = self._propagator.extract(context_of(headers))
        maker = self._api.get_current_span(context).get_span_context()
        return maker if maker.is_valid else None

    def sent_by(self, span: Span, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record with the context of the span that made it."""
        fields: dict[str, str] = {}
        self._propagator.inject(fields, self._api.set_span_in_context(span))
        return replace(record, headers=self.with_context(record.headers, fields))

    @staticmethod
    def with_context(headers: Headers, context: Mapping[str, str]) -> Headers:
        """Return the headers with this trace context instead of the one that they had.

        >>> Tracing.with_context((("ce_id", b"1"),), {"traceparent": "00-1-2-01"})
        (('ce_id', b'1'), ('ce_traceparent', b'00-1-2-01'))
        """
        named = {f"ce_{name}" for name in _FIELDS}
        rest = [header for header in headers if header[0] not in named]
        ours = [(f"ce_{name}", context[name].encode()) for name in _FIELDS if name in context]
        return (*rest, *(header for header in ours if len(header[1]) <= _MOST_STATE_BYTES))

    def sent_now(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record with the context of the present span, if there is one."""
        span = self._api.get_current_span()
        return self.sent_by(span, record) if span.get_span_context().is_valid else record

    def _links(self, linked: Collection[SpanContext]) -> list[Link]:
        return [self._api.Link(context) for context in linked]


def _of_operation(name: str) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": _KINDS.get(name, "process"),
    }


def _of_message(operation: str, record: Record | OutgoingRecord) -> dict[str, Any]:
    headers = dict(record.headers)
    snapshot = headers.get("icd_snapshot_id") or headers.get("ce_id")
    named = {"stream_icd.graph": record.key, "stream_icd.snapshot": snapshot}
    attributes: dict[str, Any] = {
        **_of_operation(operation),
        "messaging.destination.name": record.topic,
        **{name: value.decode(errors="replace") for name, value in named.items() if value},
    }
    if isinstance(record, Record):
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
    return attributes


@contextmanager
def traces_of(program: str) -> Iterator[Tracing | None]:
    """Give what makes spans, and send them while the block runs; None if traces are off.

    A program that has set a provider of its own keeps it. `program` names the service, unless
    `OTEL_SERVICE_NAME` does. Raises `BadSettings` if the setting is wrong, `MissingExtra` without
    OpenTelemetry.
    """
    if TraceSettings().traces == "off":
        yield None
        return
    with needs_extra("otel", "opentelemetry"):
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), TracerProvider):
        yield Tracing()
        return
    name = os.environ.get("OTEL_SERVICE_NAME", f"stream-icd-{program}")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield Tracing(provider)
    finally:
        provider.shutdown()  # sends the spans that wait for the end of a batch


def context_of(headers: Headers) -> dict[str, str]:
    """Return the fields of the trace context in the headers; empty if there is none.

    Without those of CloudEvents, those count that other programs write for every message.

    >>> context_of((("ce_traceparent", b"00-1-2-01"), ("traceparent", b"00-3-4-01")))
    {'traceparent': '00-1-2-01'}
    """
    fields = dict(headers)
    prefix = "ce_" if "ce_traceparent" in fields else ""
    return {
        name: fields[f"{prefix}{name}"].decode("ascii", errors="replace")
        for name in _FIELDS
        if f"{prefix}{name}" in fields
    }
