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
        typer.Option(
            help="A community keeps its id if its Jaccard index with its earlier self is at least "
            "this."
        ),
    ] = 0.3,
    part: Annotated[
        float,
        typer.Option(
            help="A community merges into another, or splits from it, with more than this fraction "
            "of its members; 1: only similarity (--match) counts."
        ),
    ] = 0.5,
    change: Annotated[
        float,
        typer.Option(
            help="Report growth or shrinkage if the size changes by at least this fraction."
        ),
    ] = 0.1,
    smallest: Annotated[
        int,
        typer.Option(
            help="Do not report mergers or splits of communities with fewer members than this."
        ),
    ] = 3,
    absence: Annotated[
        int, typer.Option(help="Number of windows for which an absent community keeps its id.")
    ] = 5,
    ahead: Annotated[
        str,
        typer.Option(
            help="Refuse windows that end further in the future than this; otherwise all later "
            "windows would be too late."
        ),
    ] = "31d",
    group: Group = None,
    delivery: Delivery = "auto",
    batch: Annotated[
        int, typer.Option(min=1, help="Maximum number of windows published together.")
    ] = 16,
    max_dead_letters: MaxDeadLetters = 0.5,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Track communities: read icd.communities.v1, write icd.events.v1.

    Each community gets an id that it keeps from window to window, and lifecycle events: born,
    grown, shrunk, merged, split, continued, died. You can start several trackers: each graph is
    tracked by one of them. A tracker has no state of its own; after a restart it continues from
    icd.events.v1.

      stream-icd consume track --graph as733
    """
    from stream_icd.kafka.topics import COMMUNITIES
    from stream_icd.programs import WorkerOptions, run_worker
    from stream_icd.sources.durations import parse_duration
    from stream_icd.tracking.settings import TrackSettings
    from stream_icd.workers.track import Tracker

    thresholds = TrackSettings(match, part, change, smallest, absence, parse_duration(ahead))

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
