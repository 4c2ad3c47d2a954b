"""Logging: JSON lines on standard error, or text on a terminal."""

from __future__ import annotations

import logging
import sys
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
    logging.basicConfig(handlers=[handler], level=level, force=True)
    # The Kafka client logs every connection at INFO, and every byte at DEBUG.
    logging.getLogger("kafka").setLevel(max(logging.WARNING, logging.getLogger().level))


def _printable_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape values for a terminal, so that no name can move the cursor or forge a line."""
    for name, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if name == "exception" else [value]
            event[name] = "\n".join(map(printable, lines))
    return event
