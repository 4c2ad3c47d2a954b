"""`stream-icd known`: say which nodes are known to be in one community."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.commands.programs.options import OnlyGraph
from stream_icd.commands.programs.sending import SendOptions
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.kafka.record import OutgoingRecord

known = typer.Typer()


@command(known, "known")
class _SendKnown(SendOptions):
    """Send which nodes are known to be in one community to icd.known.v1.

    A message for each node whose label differs from that in the topic. Detectors that run with
    --known topic use them from the next batch on.

      stream-icd known teams.csv --graph mails
      stream-icd consume detect --known topic
    """

    table: Path = argument(
        "CSV, JSON lines or Parquet with the columns node and community: nodes of one label are in "
        "one community."
    )
    graph: OnlyGraph = None
    replace: bool = option(False, "Take back what is known of nodes that are not in the table.")
    source: str = option("stream_icd/known", "Source of the knowledge, a URI reference.")

    def run(self) -> None:
        from stream_icd.sources.node_tables import known_labels
        from stream_icd.streaming.subscribers.known_topic import known_in_topic

        tables = known_labels(self.table, self.graph)
        known = known_in_topic(self.kafka())
        with self.sending() as send:
            for graph, wanted in tables.items():
                before = known.labels(graph)
                changed = {
                    node: label for node, label in wanted.items() if label != before.get(node)
                }
                gone = sorted(before.keys() - wanted.keys()) if self.replace else []
                for record in self._records(graph, changed, gone):
                    send(record)
                say(
                    f"{graph}: {self.done} the communities of {len(changed):,} nodes "
                    f"({len(wanted) - len(changed):,} are as they were)"
                    + (f"; took back those of {len(gone):,}" if self.replace else "")
                )

    def _records(
        self, graph: str, changed: Mapping[str, str], gone: Iterable[str]
    ) -> "Iterator[OutgoingRecord]":
        from stream_icd.kafka.messages.records import outgoing
        from stream_icd.kafka.record import OutgoingRecord
        from stream_icd.kafka.topics import KNOWN
        from stream_icd.wire.nodes import KnownNode, encode_known, node_key

        now = datetime.now(UTC)
        for node, label in changed.items():
            yield outgoing(KNOWN, encode_known(KnownNode(graph, node, label), now, self.source))
        for node in gone:
            yield OutgoingRecord(KNOWN, None, node_key(graph, node))
