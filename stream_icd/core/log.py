"""Logging: JSON lines on standard error, or text on a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import structlog
from pydantic import BeforeValidator
from structlog.typing import EventDict, Processor

from stream_icd.core.printable import printable
from stream_icd.core.settings import Settings


class LogSettings(Settings):
    """The log level: `STREAM_ICD_LOG_LEVEL`, or `log_level` in the table `[log]`."""

    table: ClassVar[str] = "log"

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(lambda level: str(level).lower()),
    ] = "info"


def configure_logging(*, json: bool | None = None) -> None:
    """Log to standard error: JSON lines, or text on a terminal, unless `json` says which."""
    level = LogSettings().log_level.upper()
    # Without standard error, as started with 2>&-, nothing is logged.
    as_json = not (sys.stderr and sys.stderr.isatty()) if json is None else json
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    # Plain tracebacks: those of rich show local variables, which may hold a password.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            *([structlog.processors.JSONRenderer()] if as_json else [_printable_values, plain]),
        ],
    )
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    if level != "DEBUG":
        handler.addFilter(_SeldomFromClient())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    # The Kafka client logs every connection at INFO, and every byte at DEBUG.
    logging.getLogger("kafka").setLevel(max(logging.WARNING, logging.getLogger().level))


class _SeldomFromClient(logging.Filter):
    """Passes a kind of line of the Kafka client once a minute, and says how many it left out.

    While a broker is away, the client logs several lines a second; all about connections are of one
    kind. It shows no traceback: the line says the error.
    """

    every_s = 60.0
    of_connections = ("KafkaConnectionError", "No node available", "receiving network data")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        # When a kind was passed last; there are as many kinds as in the client's code.
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("kafka."):
            return True
        line = record.getMessage()
        is_of_connection = any(part in line for part in self.of_connections)
        kind = "connection" if is_of_connection else str(record.msg)
        now = self._now()
        if now - self._last.get(kind, -self.every_s) < self.every_s:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._last[kind] = now
        more = self._left_out.pop(kind, 0)
        record.exc_info = record.exc_text = None
        record.msg, record.args = line + (f" (and {more} such lines before)" if more else ""), ()
        return True


def _printable_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape values for a terminal, so that no name can move the cursor or forge a line."""
    for name, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if name == "exception" else [value]
            event[name] = "\n".join(map(printable, lines))
    return event
