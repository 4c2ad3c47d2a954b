"""`stream-icd attributes`: send attributes of nodes, such as countries, to name communities by."""

from pathlib import Path
from typing import Annotated

import typer

from stream_icd.cli.label import SendTable
from stream_icd.programs.declared import command
from stream_icd.programs.options import GraphName, kafka_settings

app = typer.Typer()


@command(app, "attributes")
class SendAttributes(SendTable):
    """Send what changed of the attributes of nodes to icd.attributes.v1.

    A message for each node whose attributes differ from those in the topic. Programs that run with
    --names topic use them from the next window on.

      stream-icd attributes countries.csv --graph as733

      stream-icd view --names topic
    """

    table: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSON lines or Parquet with the column node and one for each attribute, such "
            "as country."
        ),
    ]
    graph: GraphName
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Take back the attributes of nodes that the table lacks."),
    ] = False
    source: Annotated[str, typer.Option(help="Source of the attributes, a URI reference.")] = (
        "stream_icd/attributes"
    )

    def run(self) -> None:
        from datetime import UTC, datetime

        from stream_icd.kafka.record import OutgoingRecord
        from stream_icd.kafka.topics import ATTRIBUTES
        from stream_icd.messages.records import outgoing
        from stream_icd.printable import say
        from stream_icd.sources.node_tables import read_attributes
        from stream_icd.subscribers.attributes import attributes_in_topic
        from stream_icd.wire.attributes import NodeAttributes, attributes_key, encode_attributes

        graph, now = self.graph, datetime.now(UTC)
        wanted = read_attributes(self.table).rows()
        known = attributes_in_topic(kafka_settings(self.bootstrap_servers), graph).rows(graph)
        changed = {node: row for node, row in wanted.items() if row != known.get(node, {})}
        gone = sorted(known.keys() - wanted.keys()) if self.replace else []
        with self.sending() as send:
            for node, row in changed.items():
                message = encode_attributes(NodeAttributes(graph, node, row), now, self.source)
                send(outgoing(ATTRIBUTES, message))
            for node in gone:
                send(OutgoingRecord(ATTRIBUTES, None, attributes_key(graph, node)))
        done = "would send" if self.dry_run else "sent"
        say(
            f"{done} the attributes of {len(changed):,} nodes "
            f"({len(wanted) - len(changed):,} are as they were)"
            + (f"; took back those of {len(gone):,}" if self.replace else "")
        )
