"""`stream-icd produce replay`: archived snapshots as a live stream."""

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.commands.programs.options import (
    PastOptions,
    Producer,
    TempoOptions,
    checked_graph,
)

app = typer.Typer()


@command(app, "replay")
class Replay(PastOptions, TempoOptions, Producer):
    """Send archived snapshots and their labels again, byte for byte.

    With --speed 10x, an hour between two windows takes six minutes. Of a snapshot that was
    corrected, the newest revision is sent. Snapshots that the topic holds are skipped: send them as
    another graph (--as-graph), or to another topic (--topic; without labels).

      stream-icd produce replay history/ --graph as733 --speed 86400x
      stream-icd produce replay s3://bucket/history --rate 50/s
      stream-icd produce replay history/ --graph as733 --as-graph test
    """

    path: str = argument(
        "The archive: a folder, or a URI such as s3://bucket/history.", metavar="URI"
    )
    as_graph: str | None = option(
        None, "Send the graph under this name, ids too.", callback=checked_graph
    )
    topic: str = option("icd.snapshots.v1", "Topic of the snapshots; created if it does not exist.")

    def open(self, run: "programs.ProducerRun") -> "programs.Source":  # noqa: ARG002
        from stream_icd.core.store.store import open_store
        from stream_icd.history.replay.archived_source import archived_source

        return archived_source(open_store(self.path), self.selection(), self.as_graph)

    def run(self) -> None:
        way_out = (
            "--as-graph NAME sends them as another graph, --topic NAME to another topic, --again "
            "once more"
        )
        programs.run_producer(self.open, self, self.topic, way_out)
