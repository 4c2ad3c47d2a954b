"""What programs say of themselves: JSON lines on standard error, or text for a person."""

from __future__ import annotations

import sys
from typing import TextIO

import structlog


def configure_logging(stream: TextIO | None = None, *, json: bool | None = None) -> None:
    """Send log events to `stream` (standard error when None), as JSON or as coloured text.

    Args:
        json: None chooses text where a person reads (a terminal), else JSON.
    """
    target = stream or sys.stderr
    as_json = not target.isatty() if json is None else json
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(target),
    )
