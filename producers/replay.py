"""`stream-icd produce replay`: archived snapshots as a live stream."""

from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.programs.declared import Producer, command
from stream_icd.programs.options import checked_graph
from stream_icd.programs.past import PastOptions, TempoOptions

if TYPE_CHECKING:
    from stream_icd.programs import ProducerRun, Source

app = typer.Typer()


@command(app, "replay")
class Replay(Producer, TempoOptions, PastOptions):
    """Send archived snapshots and their labels again, byte for byte.

    With --speed 10x, an hour between two windows takes six minutes. Of a snapshot that was
    corrected, the newest revision is sent. Snapshots that the topic holds are skipped: send them as
    another graph (--as-graph), or to another topic (--topic; without labels).

      stream-icd produce replay history/ --graph as733 --speed 86400x

      stream-icd produce replay s3://bucket/history --rate 50/s

      stream-icd produce replay history/ --graph as733 --as-graph test
    """

    path: Annotated[
        str,
        typer.Argument(
            metavar="URI", help="The archive: a folder, or a URI such as s3://bucket/history."
        ),
    ]
    as_graph: Annotated[
        str | None,
        typer.Option(help="Send the graph under this name, ids too.", callback=checked_graph),
    ] = None
    topic: Annotated[
        str, typer.Option(help="Topic for the snapshots; created if it does not exist.")
    ] = "icd.snapshots.v1"

    def open(self, run: "ProducerRun") -> "Source":
        """Open the archived snapshots, each at its time."""
        import time

        from stream_icd.replay.archived_source import archived_source, paced_source
        from stream_icd.store.store import open_store

        return paced_source(
            archived_source(open_store(self.path), self.selection(), self.as_graph),
            self.tempo(),
            time.monotonic,
            run.stop.wait,
            run.sent_before,
        )

    def run(self) -> None:
        from stream_icd.programs import run_producer

        way_out = (
            "--as-graph NAME sends them as another graph, --topic NAME to another topic, --again "
            "once more"
        )
        run_producer(self.open, self, self.topic, way_out)
