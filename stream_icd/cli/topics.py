"""`stream-icd topics`: create them, and let a group pass over what it cannot read."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stream_icd.cli.options import BootstrapServers, kafka_settings
from stream_icd.errors import BadSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Create the topics; skip records that cannot be read.",
)


@app.callback()
def _topics() -> None:
    """A group, so that `topics` can grow."""


@app.command()
def create(bootstrap_servers: BootstrapServers = None) -> None:
    """Create the missing topics; existing ones are not changed.

    stream-icd topics create
    """
    from stream_icd.kafka.topics import create_topics

    result = create_topics(kafka_settings(bootstrap_servers))
    for name in result.created:
        typer.echo(f"created   {name}")
    for name in result.existing:
        typer.echo(f"exists    {name}")


@app.command()
def skip(
    group: Annotated[str, typer.Option(help="Consumer group; stop all its members first.")],
    topic: Annotated[str, typer.Option(help="Topic that the group reads.")] = "icd.snapshots.v1",
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PARTITION:OFFSET",
            help="Continue at this offset, and skip the records before it.",
            show_default=False,
        ),
    ] = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Let a group go on after records that it cannot read.

    By default, these are the records that retention removed before the group had read them;
    partitions of which nothing is gone stay where they are. With --to, the group continues at that
    offset of that partition, as the error names it where records cannot be decoded. Prints which
    records the group will never read: from one offset up to, not including, another.

      stream-icd topics skip --group stream-icd-detect

      stream-icd topics skip --group stream-icd-detect --to 3:42
    """
    from stream_icd.kafka.groups import skip_to, skip_what_is_gone

    settings = kafka_settings(bootstrap_servers)
    if to is None:
        skipped = skip_what_is_gone(settings, topic, group)
    elif place := re.fullmatch(r"(\d+):(\d+)", to):
        skipped = (skip_to(settings, topic, group, int(place[1]), int(place[2])),)
    else:
        raise BadSettings(f"--to {to}: give PARTITION:OFFSET, such as 3:42")
    for one in skipped:
        typer.echo(f"skipped   {topic}[{one.partition}] from {one.start} to {one.end}")
    if not skipped:
        typer.echo(f"nothing of {topic} is gone: group {group} stays where it is")
