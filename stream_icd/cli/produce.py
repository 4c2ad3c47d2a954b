"""`stream-icd produce NAME`: send snapshots to Kafka."""

from __future__ import annotations

import typer

from stream_icd.cli.plugins import Producers

app = typer.Typer(
    cls=Producers,
    no_args_is_help=True,
    help="Make snapshots from data and send them to Kafka.",
)


@app.callback()
def _produce() -> None:
    """The producers are installed ones: entry points `stream_icd.producers`."""
