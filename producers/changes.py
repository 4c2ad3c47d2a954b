"""`stream-icd produce changes`: edges that come and go, and the graph as it stands each minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import GraphName, Ids, ReadingProducer

if TYPE_CHECKING:
    from stream_icd.sources.values import KindBefore

app = typer.Typer()


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
    ids: Ids = "auto"
    graph: GraphName = "changes"

    def open(self, run: programs.ProducerRun) -> programs.Source:
        from stream_icd.commands.programs.changing import changing_source
        from stream_icd.core.times import parse_wait
        from stream_icd.sources.changes import ChangeColumns

        every_s = parse_wait("--every", self.every)
        quiet_s = parse_wait("--quiet-after", self.quiet_after)
        columns = ChangeColumns(self.time, run.bad_rows, self._kind(run), self.time_unit)
        return changing_source(self, run, columns, every_s, quiet_s)

    def _kind(self, run: programs.ProducerRun) -> KindBefore:
        return lambda: self.ids if self.ids != "auto" else run.kind_before(self.graph)
