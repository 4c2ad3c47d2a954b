"""`stream-icd retrain`: learn a new model from the archive, and promote it if it is better."""

from __future__ import annotations

import typer

from stream_icd.retraining.command import retrain_command

app = typer.Typer(help="Learn a new model from the archive, and promote it if it is better.")
app.command()(retrain_command)
