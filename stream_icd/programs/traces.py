"""Where the spans of a program go: to an OTLP collector, by OpenTelemetry's own variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from stream_icd.extras import needs_extra
from stream_icd.tracing.spans import TraceSettings, Tracing


@contextmanager
def traces_of(program: str) -> Iterator[Tracing | None]:
    """Give what makes spans, and send them while the block runs; None if traces are off.

    A program that has set a provider of its own keeps it.

    Args:
        program: name of the service, unless `OTEL_SERVICE_NAME` is set.

    Raises:
        BadSettings: the setting is wrong.
        MissingExtra: traces are on, and OpenTelemetry is not installed.
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
        provider.shutdown()
