"""`stream-icd topics create`: make the topics with the settings that the contract asks for."""

from __future__ import annotations

import typer

from stream_icd.cli.options import BootstrapServers, kafka_settings

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Create the topics.")


@app.callback()
def _topics() -> None:
    """A group, so that `topics` can grow."""


@app.command()
def create(bootstrap_servers: BootstrapServers = None) -> None:
    """Create the topics that are missing; the ones that exist stay as they are."""
    from stream_icd.kafka.topics import create_topics

    result = create_topics(kafka_settings(bootstrap_servers))
    for name in result.created:
        typer.echo(f"created   {name}")
    for name in result.existing:
        typer.echo(f"exists    {name}")
