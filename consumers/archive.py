"""`stream-icd consume archive`: keep what goes over the topics."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stream_icd.cli.options import BootstrapServers, MetricsHost, MetricsPort, kafka_settings

app = typer.Typer()


class Kinds(StrEnum):
    """What can be archived."""

    SNAPSHOTS = "snapshots"
    LABELS = "labels"
    COMMUNITIES = "communities"


@app.command("archive")
def main(
    uri: Annotated[
        str, typer.Argument(help="Where to: a folder, or a URI such as s3://bucket/history.")
    ],
    kind: Annotated[
        list[Kinds] | None,
        typer.Option(
            help="Only this kind; may be given again. By default all.", show_default=False
        ),
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="Only this graph; by default all.", show_default=False)
    ] = None,
    group: Annotated[
        str, typer.Option(help="Consumer group (and the topic): its members share the work.")
    ] = "stream-icd-archive",
    max_dead_letters: Annotated[
        float, typer.Option(help="Stop when more than this share of the last 50 records was bad.")
    ] = 0.5,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Keep snapshots, labels and communities as Parquet files, each once.

    A record's file is whole and safe before its offset is committed, and has the same place
    whenever it comes: a crash loses nothing and doubles nothing. What breaks the contract goes to
    the topic's dead letters.

      stream-icd consume archive history/

      stream-icd consume archive s3://bucket/history --kind snapshots
    """
    import structlog

    from stream_icd.cli.run_consumer import shown_on, stop_on_signals
    from stream_icd.history.archive import Archive
    from stream_icd.history.layout import KINDS
    from stream_icd.log import configure_logging
    from stream_icd.pipeline.archive import TOPICS, Archiver, archive_topics
    from stream_icd.pipeline.dead_letters import DeadLetterLimit
    from stream_icd.store import open_store

    stop = stop_on_signals()
    configure_logging()
    settings = kafka_settings(bootstrap_servers)
    archive = Archive(open_store(uri))
    wanted = [one for one in KINDS if kind is None or one in kind]
    archivers = {
        TOPICS[one]: Archiver(archive, one, DeadLetterLimit(max_dead_letters), graph)
        for one in wanted
    }
    structlog.get_logger().info("started", uri=uri, kinds=wanted, group=group)
    with shown_on(metrics_port, metrics_host, settings) as metrics:
        archive_topics(
            settings, archivers, group, stop, watch=lambda topic: metrics.watch(topic, graph)
        )
