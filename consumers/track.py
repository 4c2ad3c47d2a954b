"""`stream-icd consume track`: follow communities from window to window."""

from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.programs.declared import command
from stream_icd.programs.options import Delivery, NamesFile, WorkerOptions

if TYPE_CHECKING:
    from stream_icd.programs import WorkerRun
    from stream_icd.workers.track import Tracker

app = typer.Typer()


@command(app, "track")
class Track(WorkerOptions):
    """Track communities: read icd.communities.v1, write icd.events.v1.

    Each community gets an id that it keeps from window to window, and lifecycle events: born,
    grown, shrunk, merged, split, continued, died. You can start several trackers: each graph is
    tracked by one of them. A tracker has no state of its own; after a restart it continues from
    icd.events.v1.

      stream-icd consume track --graph as733

    With a table of attributes of the nodes, events have the names of their communities:

      stream-icd consume track --graph as733 --names countries.csv

    All events are published, since they are the state; subscribers choose with --least-bits and
    --confirmed.
    """

    match: Annotated[
        float,
        typer.Option(
            help="A community keeps its id if its Jaccard index with its earlier self is at least "
            "this."
        ),
    ] = 0.3
    part: Annotated[
        float,
        typer.Option(
            help="A community merges into another, or splits from it, with more than this fraction "
            "of its members; 1: only similarity (--match) counts."
        ),
    ] = 0.5
    change: Annotated[
        float,
        typer.Option(
            help="Report growth or shrinkage if the size changes by at least this fraction."
        ),
    ] = 0.1
    smallest: Annotated[
        int,
        typer.Option(
            help="Do not report mergers or splits of communities with fewer members than this."
        ),
    ] = 3
    absence: Annotated[
        int, typer.Option(help="Number of windows for which an absent community keeps its id.")
    ] = 5
    ahead: Annotated[
        str,
        typer.Option(
            help="Refuse windows that end further in the future than this; otherwise all later "
            "windows would be too late."
        ),
    ] = "31d"
    names: NamesFile = None
    delivery: Delivery = "auto"
    batch: Annotated[
        int, typer.Option(min=1, help="Maximum number of windows published together.")
    ] = 16

    def run(self) -> None:
        from stream_icd.kafka.topics import COMMUNITIES
        from stream_icd.programs import run_worker
        from stream_icd.programs.names import naming_by
        from stream_icd.sources.durations import parse_duration
        from stream_icd.tracking.settings import TrackSettings
        from stream_icd.workers.track import Tracker

        ahead = parse_duration(self.ahead)
        thresholds = TrackSettings(
            self.match, self.part, self.change, self.smallest, self.absence, ahead
        )

        def tracker(run: "WorkerRun") -> "dict[str, Tracker]":
            given = naming_by(self.names, lambda: run.settings, self.graph)
            naming = run.until_the_end.enter_context(given)
            tracker = Tracker(run.settings, thresholds, graph=self.graph, naming=naming)
            return {COMMUNITIES: tracker}

        run_worker(tracker, self, "track", delivery=self.delivery, batch=self.batch)
