"""`stream-icd topics`: make them as the contract asks for, and go on where their past is gone."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_icd.cli.options import BootstrapServers, kafka_settings

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Create the topics; skip what is gone."
)


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


@app.command()
def skip(
    group: Annotated[str, typer.Option(help="The consumer group; none of its members may run.")],
    topic: Annotated[str, typer.Option(help="What it reads.")] = "icd.snapshots.v1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Let a group go on after records that retention removed before it had read them.

    Partitions of which nothing is gone stay where they are. Which records it will never read is
    told: from one offset up to, not including, another.

      stream-icd topics skip --group stream-icd-detect
    """
    from stream_icd.kafka.groups import skip_what_is_gone

    skipped = skip_what_is_gone(kafka_settings(bootstrap_servers), topic, group)
    for one in skipped:
        typer.echo(f"skipped   {topic}[{one.partition}] from {one.start} to {one.end}")
    if not skipped:
        typer.echo(f"nothing of {topic} is gone: group {group} stays where it is")
