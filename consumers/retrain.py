"""`stream-icd consume retrain`: keep the champion of a registry up to date."""

from __future__ import annotations

import typer

from stream_icd.retraining.command import retrain_command

app = typer.Typer()
app.command("retrain")(retrain_command)
