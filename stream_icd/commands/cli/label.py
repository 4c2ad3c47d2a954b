"""`stream-icd label`: send the true communities of archived windows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.commands.programs.options import OnlyGraph
from stream_icd.commands.programs.sending import SendOptions
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.core.communities import Labels

label = typer.Typer()


@command(label, "label")
class _Label(SendOptions):
    """Send the true communities of archived windows to icd.labels.v1, at any time.

    The archive knows the windows; labels of windows or nodes that it does not have are counted and
    not sent. A later table of a window replaces an earlier one. Retraining uses the labels, and
    replay sends them again.

      stream-icd label labels.csv --archive history/
    """

    table: Path = argument(
        "CSV, JSON lines or Parquet with the columns node and community; snapshot or window_start "
        "if they change with the window; graph, if there are several."
    )
    archive: Annotated[str, typer.Option(help="The archive of the windows: a folder or a URI.")]
    graph: OnlyGraph = None
    source: str = option("stream_icd/label", "Source of the labels, a URI reference.")

    def run(self) -> None:
        from stream_icd.commands.programs.label import send_labels
        from stream_icd.core.store.store import open_store
        from stream_icd.history.archive import Selection, refuse_nothing
        from stream_icd.kafka.messages.claims import ClaimCheck
        from stream_icd.kafka.messages.records import outgoing
        from stream_icd.kafka.topics import LABELS
        from stream_icd.sources.node_tables import label_groups
        from stream_icd.wire.communities import encode_labels

        groups, store = label_groups(self.table), open_store(self.archive)
        refuse_nothing(store, [Selection("snapshots", self.graph)])
        fitting = ClaimCheck(self.kafka(check=False))
        with self.sending() as send:

            def send_one(labels: "Labels") -> None:
                record = outgoing(LABELS, encode_labels(labels))
                send(record if self.dry_run else fitting(record))

            counts = send_labels(groups, store, send_one, self.graph, self.source)
        say(
            f"{self.done} {counts.nodes} labels of {counts.windows} windows "
            f"({counts.partly} partly)"
        )
        if counts.unknown_nodes:
            say(f"{counts.unknown_nodes} labels are of nodes that their window does not have")
        if counts.unknown_windows:
            some = ", ".join(str(window) for window in counts.unknown_windows[:5])
            say(f"{len(counts.unknown_windows)} windows are not archived, such as {some}")
