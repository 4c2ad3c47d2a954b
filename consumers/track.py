"""`stream-icd consume track`: follow communities from window to window."""

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.naming import GraphNames, naming_by
from stream_icd.commands.programs.options import DeliveryOption, WorkerOptions

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

    match: float = option(
        0.3, "A community keeps its id if its Jaccard index with its earlier self is at least this."
    )
    part: float = option(
        0.5,
        "A community merges into another, or splits from it, with more than this fraction of its "
        "members; 1: only similarity (--match) counts.",
    )
    change: float = option(0.1, "Report growth or shrinkage by at least this fraction of the size.")
    smallest: int = option(3, "Do not report mergers or splits of communities with fewer members.")
    absence: int = option(5, "Number of windows for which an absent community keeps its id.")
    ahead: str = option(
        "31d",
        "Refuse windows that end further in the future than this; otherwise all later windows "
        "would be too late.",
    )
    names: GraphNames = None
    delivery: DeliveryOption = "auto"
    batch: int = option(16, "Maximum number of windows published together.", min=1)

    def run(self) -> None:
        from stream_icd.core.times import parse_duration
        from stream_icd.kafka.topics import COMMUNITIES
        from stream_icd.methods.tracking.track import TrackSettings
        from stream_icd.streaming.workers.track import Tracker

        ahead = parse_duration(self.ahead)
        thresholds = TrackSettings(
            self.match, self.part, self.change, self.smallest, self.absence, ahead
        )

        def tracker(run: programs.WorkerRun) -> dict[str, Tracker]:
            naming = naming_by(self.names, self.graph)
            return {COMMUNITIES: Tracker(run.settings, thresholds, graph=self.graph, naming=naming)}

        programs.run_worker(tracker, self, "track", delivery=self.delivery, batch=self.batch)
