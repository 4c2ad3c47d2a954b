"""`stream-icd produce changes`: edges that come and go, and the graph as it stands each minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import GraphName, IdsOption, ReadingProducer
from stream_icd.core.errors import BadSettings, OffsetGone

if TYPE_CHECKING:
    from stream_icd.sources.changes import Change
    from stream_icd.sources.values import KindBefore
    from stream_icd.sources.windows import Quiet

app = typer.Typer()

_OPTIONAL = ("dst", "weight")


@command(app, "changes")
class Changes(ReadingProducer):
    """Send a graph as it stands, from a topic of additions and removals of edges.

    Each record of the topic is a JSON object:

      {"op": "add", "src": "acme", "dst": "globex", "weight": 2, "t": "2026-01-31T12:00:00Z"}
      {"op": "remove", "src": "acme", "dst": "globex", "t": "2026-01-31T12:05:00Z"}
      {"op": "add", "src": "initech", "t": "2026-01-31T12:06:00Z"}

    An edge that is added again has the new weight. Without dst, a node is added, or removed with
    its edges. When an edge is removed, its nodes stay. Give records about one edge one key, so that
    they keep their order.

      stream-icd produce changes --topic edges --every 1m

    A snapshot of the whole graph is sent at the end of each interval. It says up to where it has
    read the topic, so a restart continues exactly there, with the graph of the last snapshot.
    """

    topic: str = option("edges", "Read changes from this Kafka topic.")
    every: str = option("1m", "Snapshot interval, such as 10s, 1m or 1h.")
    only_changed: bool = option(False, "Send no snapshot if nothing changed since the last one.")
    drop_isolated: bool = option(False, "Remove nodes with their last edge.")
    until: Literal["forever", "end"] = option(
        "forever", "Follow the topic forever, or stop at its current end."
    )
    quiet_after: str = option(
        "10s",
        "Do not wait for partitions without changes for this long: their windows close by the "
        "clock.",
    )
    anew: bool = option(
        False, "Begin with the changes that the topic still holds, although earlier ones are gone."
    )
    time: str = option("t", "Field of the time of a change: ISO 8601, or a number.")
    time_unit: Literal["s", "ms", "us", "ns"] = option("s", "Unit of numeric times since 1970 UTC.")
    ids: IdsOption = "auto"
    graph: GraphName = "changes"

    def open(self, run: programs.ProducerRun) -> programs.Source:
        """Open the snapshots of the graph, after the last one that was sent.

        Raises:
            BadSettings: the last snapshot comes from elsewhere, the topic has too many partitions,
                or its first changes are gone and no snapshot holds them.
            TopicMissing, BrokerUnavailable: the topic cannot be read.
        """
        from datetime import timedelta

        from stream_icd.commands.programs.windowed import read_topic_rows
        from stream_icd.core.snapshot import EPOCH
        from stream_icd.core.times import microseconds, parse_wait, utc_now
        from stream_icd.kafka.topics import describe_topic
        from stream_icd.sources.changes import MOST_STREAMS, ChangeColumns, StandingWindows
        from stream_icd.sources.source import Source
        from stream_icd.sources.windows import Quiet

        every_s = parse_wait("--every", self.every)
        quiet_s = parse_wait("--quiet-after", self.quiet_after)
        columns = ChangeColumns(self.time, run.bad_rows, self._kind(run), self.time_unit)
        sent_before, topic = run.sent_before, self.topic
        last = sent_before.last_of(self.graph, run.settings, run.topic)
        n_streams = describe_topic(run.settings, topic).partitions
        if n_streams > MOST_STREAMS:
            raise BadSettings(f"{topic} has {n_streams} partitions; the limit is {MOST_STREAMS}")
        windows = StandingWindows(
            last,
            graph=self.graph,
            topic=topic,
            every=timedelta(seconds=every_s),
            n_streams=n_streams,
            now=lambda: microseconds(utc_now() - EPOCH),
            only_changed=self.only_changed,
            isolated=not self.drop_isolated,
            count=run.count,
        )
        if last is None and not self.anew:
            _check_that_all_is_there(run, topic, n_streams)

        def arrivals() -> Iterator[Sequence[Change] | Quiet]:
            rows = read_topic_rows(
                run.settings,
                topic,
                columns.names,
                run.bad_rows,
                since=windows.places.copy(),
                until=self.until,
                quiet_after_s=quiet_s if self.until == "forever" else None,
                optional=_OPTIONAL,
                stop=run.stop,
            )
            for batch in rows:
                yield batch if isinstance(batch, Quiet) else columns.read(batch)

        found = windows.snapshots(arrivals(), run.stop)
        return Source(None, ((snapshot, None) for snapshot in found))

    def _kind(self, run: programs.ProducerRun) -> KindBefore:
        return lambda: self.ids if self.ids != "auto" else run.kind_before(self.graph)


def _check_that_all_is_there(run: programs.ProducerRun, topic: str, n_streams: int) -> None:
    """Raise `OffsetGone` if retention removed changes: the graph would lack them."""
    from stream_icd.kafka.connect import connect
    from stream_icd.kafka.port import TopicPartition

    partitions = [TopicPartition(topic, number) for number in range(n_streams)]
    with connect(run.settings).admin() as admin:
        begins = admin.begins(partitions)
    if gone := [str(partition) for partition, at in begins.items() if at > 0]:
        raise OffsetGone(
            f"retention removed the first changes of {', '.join(gone)}, and no snapshot holds "
            "them: send all edges again, or begin with what is left (--anew)"
        )
