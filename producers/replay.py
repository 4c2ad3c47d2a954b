"""`stream-icd produce replay`: archived snapshots as a live stream."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_icd.programs.options import (
    Again,
    BootstrapServers,
    Correct,
    Limit,
    PartitionBy,
    checked_graph,
)
from stream_icd.programs.past import Fastest, First, Graph, Last, Rate, Speed

app = typer.Typer()


@app.command("replay")
def main(
    uri: Annotated[
        str, typer.Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    first: First = None,
    last: Last = None,
    graph: Graph = None,
    as_graph: Annotated[
        str | None,
        typer.Option(
            help="Send the graph under this name, ids too.",
            callback=checked_graph,
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option(help="Topic for the snapshots; created if it does not exist.")
    ] = "icd.snapshots.v1",
    speed: Speed = None,
    rate: Rate = None,
    fastest: Fastest = False,
    limit: Limit = None,
    again: Again = False,
    correct: Correct = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send archived snapshots and their labels again, byte for byte.

    With --speed 10x, an hour between two windows takes six minutes. Of a snapshot that was
    corrected, the newest revision is sent. Snapshots that the topic holds are skipped: send them as
    another graph (--as-graph), or to another topic (--topic; without labels).

      stream-icd produce replay history/ --graph as733 --speed 86400x

      stream-icd produce replay s3://bucket/history --rate 50/s

      stream-icd produce replay history/ --graph as733 --as-graph test
    """
    import time

    from stream_icd.history.archive import Selection
    from stream_icd.programs import SendOptions, run_producer
    from stream_icd.programs.past import parse_time
    from stream_icd.replay.archived_source import archived_source
    from stream_icd.replay.paced_source import paced_source
    from stream_icd.replay.pacing import parse_tempo
    from stream_icd.store.store import open_store

    tempo = parse_tempo(speed, rate, fastest=fastest)
    selection = Selection(
        graph=graph, start=parse_time("--from", first), end=parse_time("--to", last)
    )
    store = open_store(uri)
    run_producer(
        lambda run: paced_source(
            archived_source(store, selection, as_graph),
            tempo,
            time.monotonic,
            run.stop.wait,
            run.sent_before,
        ),
        SendOptions(
            bootstrap_servers=bootstrap_servers,
            limit=limit,
            again=again,
            correct=correct,
            partition_by=partition_by,
            topic=topic,
            way_out="--as-graph NAME sends them as another graph, --topic NAME to another topic, "
            "--again once more",
        ),
    )
