"""Options that commands for archived snapshots share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from stream_icd.errors import BadSettings
from stream_icd.times import parse_utc

First = Annotated[
    str | None,
    typer.Option(
        "--from", help="Only windows that begin at this time or later.", show_default=False
    ),
]

Last = Annotated[
    str | None,
    typer.Option("--to", help="Only windows that begin before this time.", show_default=False),
]

Graph = Annotated[
    str | None, typer.Option(help="Only this graph. Default: all graphs.", show_default=False)
]

Speed = Annotated[
    str | None,
    typer.Option(help="Replay at this multiple of real time, such as 10x.", show_default=False),
]

Rate = Annotated[
    str | None,
    typer.Option(
        help="Replay at this rate, such as 50/s (windows per second).", show_default=False
    ),
]

Fastest = Annotated[
    bool, typer.Option("--as-fast-as-possible", help="Do not wait between windows (the default).")
]


def parse_time(option: str, text: str | None) -> datetime | None:
    """Parse a time, or a date, which means its beginning; the default zone is UTC.

    Raises:
        BadSettings: the text is neither.
        BadSettings: it is neither.
    """
    if text is None:
        return None
    try:
        return parse_utc(text)
    except ValueError as error:
        raise BadSettings(
            f"{option} {text!r}: give a day or a time, such as 2026-01-31T12:00:00Z"
        ) from error
