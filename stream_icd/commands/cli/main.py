"""Entry point of the `stream-icd` command: runs a command and prints errors in one line."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOSPC
from io import BufferedWriter, RawIOBase, TextIOWrapper
from typing import Annotated

import typer

from stream_icd.commands.cli.plugins import BuiltIn, flowing
from stream_icd.core.errors import Action, StreamIcdError
from stream_icd.core.printable import say

# sysexits.h: what a supervisor or a shell script may act on.
_EXIT_CODES = {
    Action.RETRY: 75,  # EX_TEMPFAIL
    Action.SLOW_DOWN: 75,
    Action.DEAD_LETTER: 65,  # EX_DATAERR
    Action.STOP: 78,  # EX_CONFIG
}

_OS_EXIT_CODES = {EACCES: 78, ELOOP: 78, ENAMETOOLONG: 78, ENOSPC: 75}
"""Errors of the operating system that are the user's to solve, wherever they are raised."""

_HELP = """
Find communities in a stream of graphs.

Producers send one graph per time window to Kafka (a snapshot). Detectors find the communities of
each snapshot and publish them. Subscribers receive them seconds later.

  stream-icd demo    # start here

Set Kafka's address with --bootstrap-servers or STREAM_ICD_BOOTSTRAP_SERVERS (default:
127.0.0.1:9092). Set STREAM_ICD_CLAIMS_URI to a folder or bucket for messages that are too large
for Kafka.
"""

app = typer.Typer(
    cls=BuiltIn,
    help=flowing(_HELP),
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they may hold a password; early versions show them
)


def _show_version(asked: bool) -> None:
    if asked:
        from stream_icd.core.version import __version__

        say(f"stream-icd {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001 - its callback shows it
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Check the environment before a command runs."""
    if not any(name.upper().startswith("STREAM_ICD_") for name in os.environ):
        return
    from stream_icd.commands.cli.environment import check_environment

    for warning in check_environment(os.environ):
        say(f"warning: {warning}", err=True)


def _prepare_output() -> None:
    """Make standard output take all that is written, whatever it is and in any locale."""
    if sys.stdout is None:  # as started with `>&-`; else a connection would get its number
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        # With PYTHONUNBUFFERED, the rest of a write that a signal cuts short would be lost. What a
        # program that calls this put in its place stays its own.
        if sys.stdout is sys.__stdout__ and isinstance(sys.stdout.buffer, RawIOBase):
            encoding, raw = sys.stdout.encoding, sys.stdout.detach()
            sys.stdout = TextIOWrapper(BufferedWriter(raw), encoding, line_buffering=True)
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does


def main() -> None:
    """Run the command line. An expected error becomes one line of advice and an exit status."""
    _prepare_output()
    try:
        app()
    except StreamIcdError as error:
        # Further lines are indented, so that no name with a line feed looks like a message.
        first, *more = f"{type(error).__name__}: {error}".split("\n")
        say(first, *(f"  {line}" for line in more), err=True)
        raise SystemExit(_EXIT_CODES[error.action]) from error
    except OSError as error:
        if error.errno not in _OS_EXIT_CODES:
            raise
        say(f"OSError: {error}", err=True)
        if error.errno == ENOSPC:  # else Python tries to write the rest when it ends
            with suppress(OSError):
                sys.stdout.close()
        raise SystemExit(_OS_EXIT_CODES[error.errno]) from error
