"""Whether traces are made."""

from __future__ import annotations

from typing import ClassVar, Literal

from stream_icd.settings import Settings


class TraceSettings(Settings):
    """Traces: `STREAM_ICD_TRACES`, or `traces` in the table `[traces]`.

    Where they go is set by the variables of OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT`.
    """

    table: ClassVar[str] = "traces"

    traces: Literal["off", "on"] = "off"
