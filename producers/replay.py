"""`stream-icd produce replay`: archived snapshots as a live stream."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_icd.cli.options import Again, BootstrapServers, Limit, PartitionBy
from stream_icd.cli.replay_options import Fastest, First, Graph, Last, Rate, Speed

app = typer.Typer()


@app.command("replay")
def main(
    uri: Annotated[
        str, typer.Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    first: First = None,
    last: Last = None,
    graph: Graph = None,
    speed: Speed = None,
    rate: Rate = None,
    fastest: Fastest = False,
    limit: Limit = None,
    again: Again = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send archived snapshots and their labels again, byte for byte.

    With --speed 10x, an hour between two windows takes six minutes.

      stream-icd produce replay history/ --graph as733 --speed 86400x

      stream-icd produce replay s3://bucket/history --rate 50/s
    """
    import time

    from stream_icd.cli.replay_options import parse_time
    from stream_icd.cli.run_producer import run_producer
    from stream_icd.history.archive import Selection
    from stream_icd.pipeline.archived_source import archived_source
    from stream_icd.pipeline.pacing import parse_tempo
    from stream_icd.store import open_store

    tempo = parse_tempo(speed, rate, fastest=fastest)
    selection = Selection(
        graph=graph, start=parse_time("--from", first), end=parse_time("--to", last)
    )
    store = open_store(uri)
    run_producer(
        lambda run: archived_source(
            store, selection, tempo, time.monotonic, run.stop.wait, run.sent_before
        ),
        bootstrap_servers=bootstrap_servers,
        limit=limit,
        again=again,
        partition_by=partition_by,
    )
