"""`stream-icd label` and `stream-icd attributes`: send a table about nodes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.commands.programs.declared import argument, command, option, options
from stream_icd.commands.programs.options import BrokerOptions, GraphName, OnlyGraph
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.core.communities import Labels
    from stream_icd.kafka.record import OutgoingRecord

label, attributes = typer.Typer(), typer.Typer()


@options
class SendTable(BrokerOptions):
    """The options of commands that send a table."""

    dry_run: bool = option(False, "Send nothing; report what would be sent.")

    @contextmanager
    def sending(self) -> "Iterator[Callable[[OutgoingRecord], object]]":
        """Give what sends a record; in a dry run, it does nothing."""
        from stream_icd.kafka.publisher import Publisher

        if self.dry_run:
            yield lambda _: None
            return
        with Publisher(self.kafka()) as publisher:
            yield publisher.send


@command(label, "label")
class Label(SendTable):
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
        done = "would send" if self.dry_run else "sent"
        say(f"{done} {counts.nodes} labels of {counts.windows} windows ({counts.partly} partly)")
        if counts.unknown_nodes:
            say(f"{counts.unknown_nodes} labels are of nodes that their window does not have")
        if counts.unknown_windows:
            some = ", ".join(str(window) for window in counts.unknown_windows[:5])
            say(f"{len(counts.unknown_windows)} windows are not archived, such as {some}")


@command(attributes, "attributes")
class SendAttributes(SendTable):
    """Send what changed of the attributes of nodes to icd.attributes.v1.

    A message for each node whose attributes differ from those in the topic. Programs that run with
    --names topic use them from the next window on.

    With --known, the column community says which nodes are known to be together, in icd.known.v1.

      stream-icd attributes countries.csv --graph as733
      stream-icd attributes together.csv --graph as733 --known
      stream-icd view --names topic
    """

    table: Path = argument(
        "CSV, JSON lines or Parquet with the column node and one for each attribute (country)."
    )
    graph: GraphName
    replace: bool = option(False, "Remove the attributes of nodes that are not in the table.")
    known: bool = option(
        False, "Send the column community to icd.known.v1, for consume detect --known topic."
    )
    source: str = option("stream_icd/attributes", "Source of the attributes, a URI reference.")

    def run(self) -> None:
        from stream_icd.kafka.messages.records import outgoing
        from stream_icd.kafka.record import OutgoingRecord
        from stream_icd.kafka.topics import ATTRIBUTES, KNOWN
        from stream_icd.sources.node_tables import read_attributes
        from stream_icd.streaming.subscribers.attributes import attributes_in_topic
        from stream_icd.wire.attributes import NodeAttributes, encode_attributes
        from stream_icd.wire.node_keys import node_key

        graph, now = self.graph, datetime.now(UTC)
        wanted = read_attributes(self.table).rows()
        topic = ATTRIBUTES
        if self.known:
            topic, wanted = KNOWN, _communities(wanted, self.table)
        known = attributes_in_topic(self.kafka(), graph, topic).rows(graph)
        changed = {node: row for node, row in wanted.items() if row != known.get(node, {})}
        gone = sorted(known.keys() - wanted.keys()) if self.replace else []
        with self.sending() as send:
            for node, row in changed.items():
                message = encode_attributes(NodeAttributes(graph, node, row), now, self.source)
                send(outgoing(topic, message))
            for node in gone:
                send(OutgoingRecord(topic, None, node_key(graph, node)))
        done = "would send" if self.dry_run else "sent"
        say(
            f"{done} the attributes of {len(changed):,} nodes "
            f"({len(wanted) - len(changed):,} are as they were)"
            + (f"; took back those of {len(gone):,}" if self.replace else "")
        )


def _communities(rows: Mapping[str, Mapping[str, str]], table: Path) -> dict[str, dict[str, str]]:
    """Return the community of each node that has one; `BadSettings`: the table has none."""
    from stream_icd.wire.attributes import COMMUNITY

    found = {n: {COMMUNITY: row[COMMUNITY]} for n, row in rows.items() if COMMUNITY in row}
    if not found:
        raise BadSettings(
            f"{table} says the {COMMUNITY} of no node: a table of known nodes has the columns node "
            f"and {COMMUNITY}"
        )
    return found
