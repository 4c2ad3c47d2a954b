"""`stream-icd consume track`: follow communities from window to window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.programs.options import (
    BootstrapServers,
    Delivery,
    Group,
    MaxDeadLetters,
    MetricsHost,
    MetricsPort,
    OnlyGraph,
)

if TYPE_CHECKING:
    from stream_icd.programs import WorkerRun
    from stream_icd.workers.track import Tracker

app = typer.Typer()


@app.command("track")
def main(
    graph: OnlyGraph = None,
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
    ahead: Annotated[
        str,
        typer.Option(
            help="Refuse a window that ends further ahead of the clock than this: all that follow "
            "would be late."
        ),
    ] = "31d",
    group: Group = None,
    delivery: Delivery = "auto",
    batch: Annotated[
        int, typer.Option(min=1, help="Windows published together when many are waiting.")
    ] = 16,
    max_dead_letters: MaxDeadLetters = 0.5,
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
    from stream_icd.kafka.topics import COMMUNITIES
    from stream_icd.programs import WorkerOptions, run_worker
    from stream_icd.sources.durations import parse_duration
    from stream_icd.tracking.settings import TrackSettings
    from stream_icd.workers.track import Tracker

    thresholds = TrackSettings(match, part, change, smallest, memory, parse_duration(ahead))

    def tracker(run: WorkerRun) -> dict[str, Tracker]:
        return {COMMUNITIES: Tracker(run.settings, thresholds, graph=graph)}

    options = WorkerOptions(
        name="track",
        group=group,
        graph=graph,
        delivery=delivery,
        batch=batch,
        max_dead_letters=max_dead_letters,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        bootstrap_servers=bootstrap_servers,
    )
    run_worker(tracker, options)
