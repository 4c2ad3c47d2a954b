"""`stream-icd topics`: create them, skip what cannot be read, track a graph anew."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stream_icd.errors import BadSettings
from stream_icd.printable import printable
from stream_icd.programs.options import BootstrapServers, kafka_settings

app = typer.Typer(
    no_args_is_help=True,
    help="Create the topics; skip records that cannot be read; track a graph anew.",
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


@app.command("track-anew")
def track_anew(
    graph: Annotated[str, typer.Argument(help="Graph whose tracked windows are forgotten.")],
    topic: Annotated[str, typer.Option(help="Topic that the trackers write.")] = "icd.events.v1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Make trackers start a graph anew, as if its next window were the first.

    For a graph whose windows are all too late: its source began again at an earlier time, or one
    window was far ahead. Stop the trackers, run this, and start them. All communities are then
    born; no stable id is given a second time. Results that were tracked before are tracked again
    if they are sent again.

      stream-icd topics track-anew as733
    """
    from stream_icd.kafka.publisher import Publisher
    from stream_icd.subscribers.events_topic import forget_graph

    if not graph:
        raise BadSettings("the name of the graph is empty; give one, such as as733")
    with Publisher(kafka_settings(bootstrap_servers)) as publisher:
        publisher.send(forget_graph(graph, topic))
    typer.echo(f"trackers start {printable(graph)} anew when they are started again")


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
