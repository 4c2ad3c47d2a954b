"""`stream-icd consume NAME`: run a worker on what arrives."""

from __future__ import annotations

import typer

from stream_icd.cli.plugins import Consumers

app = typer.Typer(
    cls=Consumers,
    no_args_is_help=True,
    help="Run a worker on arriving messages (detector, tracker or archive), or a retrainer.",
)


@app.callback()
def _consume() -> None:
    """The consumers are installed ones: entry points `stream_icd.consumers`."""
