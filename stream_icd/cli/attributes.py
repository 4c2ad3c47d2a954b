"""`stream-icd attributes`: send attributes of nodes, such as countries, to name communities by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_icd.programs.options import BootstrapServers, GraphName

app = typer.Typer(help="Send attributes of nodes, to name communities by.")


@app.command()
def attributes(
    table: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSON lines or Parquet with the column node and one for each attribute, such "
            "as country."
        ),
    ],
    graph: GraphName,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Take back the attributes of nodes that the table lacks."),
    ] = False,
    source: Annotated[
        str, typer.Option(help="Source of the attributes, a URI reference.")
    ] = "stream_icd/attributes",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; report what would be sent.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send what changed of the attributes of nodes to icd.attributes.v1.

    A message for each node whose attributes differ from those in the topic. Programs that run with
    --names topic use them from the next window on.

      stream-icd attributes countries.csv --graph as733

      stream-icd view --names topic
    """
    from datetime import UTC, datetime

    from stream_icd.kafka.publisher import Publisher
    from stream_icd.kafka.record import OutgoingRecord
    from stream_icd.kafka.topics import ATTRIBUTES
    from stream_icd.messages.outgoing import outgoing
    from stream_icd.printable import say
    from stream_icd.programs.options import kafka_settings
    from stream_icd.sources.labels.attribute_table import read_attributes
    from stream_icd.subscribers.attributes import attributes_in_topic
    from stream_icd.wire.attributes import NodeAttributes, attributes_key, encode_attributes

    wanted = read_attributes(table).rows()
    settings = kafka_settings(bootstrap_servers)
    known = attributes_in_topic(settings, graph).rows(graph)
    changed = {node: row for node, row in wanted.items() if row != known.get(node, {})}
    gone = sorted(known.keys() - wanted.keys()) if replace else []
    now = datetime.now(UTC)
    records = [
        outgoing(ATTRIBUTES, encode_attributes(NodeAttributes(graph, node, row), now, source))
        for node, row in changed.items()
    ] + [OutgoingRecord(ATTRIBUTES, None, attributes_key(graph, node)) for node in gone]
    if not dry_run:
        with Publisher(settings) as publisher:
            for record in records:
                publisher.send(record)
    done = "would send" if dry_run else "sent"
    say(
        f"{done} the attributes of {len(changed):,} nodes ({len(wanted) - len(changed):,} are as "
        f"they were)" + (f"; took back those of {len(gone):,}" if replace else "")
    )
