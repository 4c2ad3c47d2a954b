"""Logging: JSON lines on standard error, or text on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import ClassVar, Literal, TextIO

import structlog
from pydantic import field_validator
from structlog.typing import EventDict, Processor

from stream_icd.printable import printable
from stream_icd.settings import Settings


class LogSettings(Settings):
    """The log level: `STREAM_ICD_LOG_LEVEL`, or `log_level` in the table `[log]`."""

    table: ClassVar[str] = "log"

    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_small_letters(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value


def configure_logging(stream: TextIO | None = None, *, json: bool | None = None) -> None:
    """Send the log events of this program, and of the libraries in it, to one stream.

    Args:
        stream: standard error when None.
        json: None chooses text on a terminal, else JSON lines.

    Raises:
        BadSettings: the level is unknown.
    """
    level = LogSettings().log_level.upper()
    target = stream or sys.stderr
    as_json = not target.isatty() if json is None else json
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ours: list[Processor] = [
        structlog.stdlib.filter_by_level,
        *shared,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ]
    structlog.configure(processors=ours, logger_factory=structlog.stdlib.LoggerFactory())
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(shared, as_json=as_json))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    # The Kafka client logs every connection at INFO, and every byte at DEBUG.
    logging.getLogger("kafka").setLevel(logging.WARNING)


def _printable_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape values for a terminal, so that no name can move the cursor or forge a line."""
    return {
        name: _printable_lines(value) if name == "exception" else _printable_value(value)
        for name, value in event.items()
    }


def _printable_value(value: object) -> object:
    return printable(value) if isinstance(value, str) else value


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _formatter(shared: list[Processor], *, as_json: bool) -> logging.Formatter:
    # Plain tracebacks: those of rich show local variables, which may hold a password.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            *([structlog.processors.JSONRenderer()] if as_json else [_printable_values, plain]),
        ],
    )
