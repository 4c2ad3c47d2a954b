"""`stream-icd topics`: create them, skip unreadable records, start a graph anew."""

import re
from typing import Annotated

import typer

from stream_icd.errors import BadSettings
from stream_icd.printable import say
from stream_icd.programs.declared import command
from stream_icd.programs.options import BootstrapServers, kafka_settings

app = typer.Typer(
    no_args_is_help=True,
    help="Create the topics, skip unreadable records, or start a graph anew.",
)

Graph = Annotated[str, typer.Argument(help="Name of the graph.")]


@command(app, "create")
class Create:
    """Create the missing topics; existing ones are not changed.

    stream-icd topics create
    """

    bootstrap_servers: BootstrapServers = None

    def run(self) -> None:
        from stream_icd.kafka.topics import DEFAULT_TOPICS, create_topics

        created = create_topics(kafka_settings(self.bootstrap_servers))
        for name in created:
            say(f"created   {name}")
        for spec in DEFAULT_TOPICS:
            if spec.name not in created:
                say(f"exists    {spec.name}")


@command(app, "track-anew")
class TrackAnew:
    """Make trackers start a graph anew, as if its next window were the first.

    Use this if all windows of a graph are too late, because its source started again at an earlier
    time or one window was far in the future. Stop the trackers, run this command, and start them
    again. All communities are then born; no stable id is used again. Results that were tracked
    before are tracked again if they are sent again.

      stream-icd topics track-anew as733
    """

    graph: Graph
    topic: Annotated[str, typer.Option(help="Topic that the trackers write to.")] = "icd.events.v1"
    bootstrap_servers: BootstrapServers = None

    def run(self) -> None:
        from stream_icd.kafka.publisher import Publisher
        from stream_icd.subscribers.events_topic import forget_graph

        if not self.graph:
            raise BadSettings("the name of the graph is empty: give one, such as as733")
        with Publisher(kafka_settings(self.bootstrap_servers)) as publisher:
            publisher.send(forget_graph(self.graph, self.topic))
        say(f"trackers will start {self.graph} anew after their restart")


@command(app, "detect-anew")
class DetectAnew:
    """Make detectors forget the windows of a graph, as if its next window were the first.

    Use this if a source started again at an earlier time: all its windows are then too late to be
    remembered. Stop the detectors, run this command, and start them again. No id of a community is
    used again.

      stream-icd topics detect-anew as733
    """

    graph: Graph
    group: Annotated[
        str, typer.Option(help="Consumer group of the detectors; stop all its members first.")
    ] = "stream-icd-detect"
    bootstrap_servers: BootstrapServers = None

    def run(self) -> None:
        from stream_icd.workers.memories import MemoryTopic

        MemoryTopic(kafka_settings(self.bootstrap_servers), self.group).forget(self.graph)
        say(f"detectors will start {self.graph} anew after their restart")


@command(app, "skip")
class Skip:
    """Move a group past records that it cannot read.

    By default, skips the records that retention removed before the group had read them, and leaves
    all other partitions unchanged. With --to, skips up to an offset; the error about records that
    cannot be decoded names it. Prints the skipped offsets; the last one is not included.

      stream-icd topics skip --group stream-icd-detect

      stream-icd topics skip --group stream-icd-detect --to 3:42
    """

    group: Annotated[str, typer.Option(help="Consumer group; stop all its members first.")]
    topic: Annotated[str, typer.Option(help="Topic that the group reads.")] = "icd.snapshots.v1"
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="PARTITION:OFFSET",
            help="Continue at this offset, and skip the records before it.",
        ),
    ] = None
    bootstrap_servers: BootstrapServers = None

    def run(self) -> None:
        from stream_icd.kafka.group.groups import skip_to, skip_what_is_gone

        settings = kafka_settings(self.bootstrap_servers)
        if self.to is None:
            skipped = skip_what_is_gone(settings, self.topic, self.group)
        elif place := re.fullmatch(r"(\d+):(\d+)", self.to):
            skipped = (skip_to(settings, self.topic, self.group, int(place[1]), int(place[2])),)
        else:
            raise BadSettings(f"--to {self.to}: give PARTITION:OFFSET, such as 3:42")
        for one in skipped:
            say(f"skipped   {self.topic}[{one.partition}] from {one.start} to {one.end}")
        if not skipped:
            say(f"{self.topic} has lost no records: group {self.group} keeps its position")
