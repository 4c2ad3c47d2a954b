"""`stream-icd label`: send the true communities of archived windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.programs.options import BootstrapServers, OnlyGraph

if TYPE_CHECKING:
    from stream_icd.communities import Labels

app = typer.Typer(help="Send the true communities of archived windows.")

SHOWN = 5


@app.command()
def label(
    table: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSON lines or Parquet with the columns node and community; snapshot or "
            "window_start if they change with the window; graph, if there are several."
        ),
    ],
    archive: Annotated[
        str,
        typer.Option(help="The archive of the windows: a folder or a URI.", show_default=False),
    ],
    graph: OnlyGraph = None,
    source: Annotated[
        str, typer.Option(help="Source of the labels, a URI reference.")
    ] = "stream_icd/label",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; report what would be sent.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send the true communities of archived windows to icd.labels.v1, at any time.

    The archive knows the windows; labels of windows or nodes that it does not have are counted and
    not sent. A later table of a window replaces an earlier one. Retraining uses the labels, and
    replay sends them again.

      stream-icd label labels.csv --archive history/
    """
    from contextlib import ExitStack

    from stream_icd.history.archive import Selection
    from stream_icd.history.nothing import refuse_nothing
    from stream_icd.kafka.publisher import Publisher
    from stream_icd.kafka.topics import LABELS
    from stream_icd.messages.claim_check import ClaimCheck
    from stream_icd.messages.outgoing import outgoing
    from stream_icd.printable import say
    from stream_icd.programs.label import send_labels
    from stream_icd.programs.options import kafka_settings
    from stream_icd.sources.labels.label_groups import label_groups
    from stream_icd.store.store import open_store
    from stream_icd.wire.communities import encode_labels

    groups, store = label_groups(table), open_store(archive)
    refuse_nothing(store, [Selection("snapshots", graph)])
    with ExitStack() as until_the_end:
        send: Callable[[Labels], None] = _send_nothing
        if not dry_run:
            settings = kafka_settings(bootstrap_servers)
            publisher = until_the_end.enter_context(Publisher(settings))
            claim_check = ClaimCheck(settings)

            def to_topic(labels: Labels) -> None:
                publisher.send(claim_check(outgoing(LABELS, encode_labels(labels))))

            send = to_topic

        counts = send_labels(groups, store, send, graph=graph, source=source)
    done = "would send" if dry_run else "sent"
    say(f"{done} {counts.nodes} labels of {counts.windows} windows ({counts.partly} partly)")
    if counts.unknown_nodes:
        say(f"{counts.unknown_nodes} labels are of nodes that their window does not have")
    if counts.unknown_windows:
        some = ", ".join(str(one) for one in counts.unknown_windows[:SHOWN])
        say(f"{len(counts.unknown_windows)} windows are not archived, such as {some}")


def _send_nothing(_labels: Labels) -> None:
    """Take the place of the topic in a dry run."""
