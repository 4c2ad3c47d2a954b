"""`stream-icd consume track`: follow communities from window to window."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_icd.cli.options import BootstrapServers, MetricsHost, MetricsPort, kafka_settings

app = typer.Typer()


@app.command("track")
def main(
    graph: Annotated[
        str | None, typer.Option(help="Only this graph; by default all.", show_default=False)
    ] = None,
    match: Annotated[
        float,
        typer.Option(help="A community is the same one from this Jaccard overlap with itself on."),
    ] = 0.3,
    part: Annotated[
        float,
        typer.Option(
            help="Going into, or coming out of, a community takes more than this share; 1: only "
            "being alike counts."
        ),
    ] = 0.5,
    change: Annotated[
        float, typer.Option(help="Grown or shrunk is who changed size by at least this share.")
    ] = 0.1,
    smallest: Annotated[
        int, typer.Option(help="Communities with fewer members merge and split without a word.")
    ] = 3,
    memory: Annotated[
        int, typer.Option(help="Windows for which a community that is not seen keeps its id.")
    ] = 5,
    group: Annotated[str, typer.Option(help="Consumer group: its members share the graphs.")] = (
        "stream-icd-track"
    ),
    delivery: Annotated[
        Literal["auto", "exactly-once", "at-least-once"],
        typer.Option(help="What is promised after a failure; auto: the best this broker can keep."),
    ] = "auto",
    batch: Annotated[
        int, typer.Option(min=1, help="Windows published together when many are waiting.")
    ] = 16,
    max_dead_letters: Annotated[
        float, typer.Option(help="Stop when more than this share of the last 50 records was bad.")
    ] = 0.5,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Track communities: read icd.communities.v1, write icd.events.v1.

    Communities get ids that stay from window to window, and what happens to them is told: born,
    grown, shrunk, merged, split, continued, died. Run one, or several: each graph is tracked by
    one of them, in order. It keeps nothing of its own: after a restart it reads in
    icd.events.v1 where it was.

      stream-icd consume track --graph as733
    """
    import structlog

    from stream_icd.cli.run_consumer import (
        freeze_what_stays,
        share_one_heap,
        shown_on,
        stop_on_signals,
    )
    from stream_icd.kafka.consumer import run_consumer
    from stream_icd.kafka.delivery import Delivery
    from stream_icd.kafka.topics import COMMUNITIES
    from stream_icd.log import configure_logging
    from stream_icd.pipeline.dead_letters import DeadLetterLimit
    from stream_icd.pipeline.outgoing import Fit
    from stream_icd.pipeline.track import Tracker
    from stream_icd.tracking.settings import TrackSettings

    share_one_heap()
    stop = stop_on_signals()
    configure_logging()
    settings = kafka_settings(bootstrap_servers)
    thresholds = TrackSettings(match, part, change, smallest, memory)
    tracker = Tracker(settings, DeadLetterLimit(max_dead_letters), thresholds, graph=graph)
    structlog.get_logger().info("started", group=group)
    with shown_on(metrics_port, metrics_host, settings) as metrics:
        run_consumer(
            settings,
            COMMUNITIES,
            group,
            Fit(settings).handle(tracker.handle),
            stop,
            delivery=Delivery(delivery),
            max_records=batch,
            on_done=freeze_what_stays(tracker.done),
            watcher=metrics.watch(COMMUNITIES, graph),
        )
