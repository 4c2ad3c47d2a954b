"""Entry point of the `stream-icd` command: finds the command, and tells errors as advice."""

from __future__ import annotations

import os
import sys

import typer

from stream_icd.cli.plugins import BuiltIn
from stream_icd.errors import Action, StreamIcdError

# sysexits.h: what a supervisor or a shell script may act on.
EXIT_CODES = {
    Action.RETRY: 75,  # EX_TEMPFAIL
    Action.SLOW_DOWN: 75,
    Action.DEAD_LETTER: 65,  # EX_DATAERR
    Action.STOP: 78,  # EX_CONFIG
}

HELP = """
Communities of a stream of graphs, seconds after each snapshot.

A producer turns what a system does into one graph per time window and sends it to Kafka; a
detector finds its communities and publishes them; subscribers follow.

Start here:  stream-icd demo

Kafka is found at --bootstrap-servers, or STREAM_ICD_BOOTSTRAP_SERVERS, or 127.0.0.1:9092.
What is too big for a message goes to the folder or bucket of STREAM_ICD_CLAIMS_URI.
"""

app = typer.Typer(cls=BuiltIn, help=HELP, no_args_is_help=True, add_completion=False)


@app.callback()
def _root() -> None:
    """Check the environment before a command runs.

    Raises:
        BadSettings: a setting there has a name or a log level that does not exist.
    """
    if not any(name.upper().startswith("STREAM_ICD_") for name in os.environ):
        return
    from stream_icd.cli.environment import check_environment

    for warning in check_environment(os.environ):
        typer.echo(f"warning: {warning}", err=True)


def main() -> None:
    """Run the command line; errors of ours become one line of advice and an exit status."""
    try:
        app()
    except StreamIcdError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(EXIT_CODES[error.action]) from error
