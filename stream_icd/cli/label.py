"""`stream-icd label`: send the true communities of archived windows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.programs.declared import command
from stream_icd.programs.options import BootstrapServers, OnlyGraph, kafka_settings

if TYPE_CHECKING:
    from stream_icd.communities import Labels
    from stream_icd.kafka.record import OutgoingRecord

app = typer.Typer()

SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class SendTable:
    """The options of commands that send a table."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; report what would be sent.")
    ] = False
    bootstrap_servers: BootstrapServers = None

    @contextmanager
    def sending(self) -> "Iterator[Callable[[OutgoingRecord], object]]":
        """Give what sends a record; in a dry run, it does nothing."""
        from stream_icd.kafka.publisher import Publisher

        if self.dry_run:
            yield lambda _: None
            return
        with Publisher(kafka_settings(self.bootstrap_servers)) as publisher:
            yield publisher.send


@command(app, "label")
class Label(SendTable):
    """Send the true communities of archived windows to icd.labels.v1, at any time.

    The archive knows the windows; labels of windows or nodes that it does not have are counted and
    not sent. A later table of a window replaces an earlier one. Retraining uses the labels, and
    replay sends them again.

      stream-icd label labels.csv --archive history/
    """

    table: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSON lines or Parquet with the columns node and community; snapshot or "
            "window_start if they change with the window; graph, if there are several."
        ),
    ]
    archive: Annotated[str, typer.Option(help="The archive of the windows: a folder or a URI.")]
    graph: OnlyGraph = None
    source: Annotated[str, typer.Option(help="Source of the labels, a URI reference.")] = (
        "stream_icd/label"
    )

    def run(self) -> None:
        from stream_icd.history.archive import Selection, refuse_nothing
        from stream_icd.kafka.topics import LABELS
        from stream_icd.messages.claims import ClaimCheck
        from stream_icd.messages.records import outgoing
        from stream_icd.printable import say
        from stream_icd.programs.label import send_labels
        from stream_icd.programs.options import chosen_settings
        from stream_icd.sources.node_tables import label_groups
        from stream_icd.store.store import open_store
        from stream_icd.wire.communities import encode_labels

        groups, store = label_groups(self.table), open_store(self.archive)
        refuse_nothing(store, [Selection("snapshots", self.graph)])
        fitting = ClaimCheck(chosen_settings(self.bootstrap_servers))
        with self.sending() as send:

            def send_one(labels: "Labels") -> None:
                record = outgoing(LABELS, encode_labels(labels))
                send(record if self.dry_run else fitting(record))

            counts = send_labels(groups, store, send_one, graph=self.graph, source=self.source)
        done = "would send" if self.dry_run else "sent"
        say(f"{done} {counts.nodes} labels of {counts.windows} windows ({counts.partly} partly)")
        if counts.unknown_nodes:
            say(f"{counts.unknown_nodes} labels are of nodes that their window does not have")
        if counts.unknown_windows:
            some = ", ".join(str(one) for one in counts.unknown_windows[:SHOWN])
            say(f"{len(counts.unknown_windows)} windows are not archived, such as {some}")
