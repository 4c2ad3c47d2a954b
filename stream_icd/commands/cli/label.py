"""`stream-icd label` and `known`: send a table of what is known of nodes.

`label`: the true communities of archived windows. `known`: which nodes are in one community.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.commands.programs.declared import argument, command, option, options
from stream_icd.commands.programs.options import BrokerOptions, OnlyGraph
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import listed, say

if TYPE_CHECKING:
    from stream_icd.core.communities import Labels
    from stream_icd.core.snapshot import Snapshot
    from stream_icd.core.store.store import Store
    from stream_icd.history.files import ArchivedWindow
    from stream_icd.kafka.record import OutgoingRecord
    from stream_icd.sources.node_tables import LabelOfNode, WindowName

    _Archived = dict[str, dict[str | datetime | None, list[ArchivedWindow]]]
    """By graph, its windows by each name that a table may give them; None: all of its windows."""

label, known = typer.Typer(), typer.Typer()


@options
class _SendOptions(BrokerOptions):
    dry_run: bool = option(False, "Send nothing; report what would be sent.")

    @contextmanager
    def sending(self) -> Iterator[Callable[[OutgoingRecord], object]]:
        from stream_icd.kafka.publisher import Publisher

        if self.dry_run:
            yield lambda _: None
            return
        with Publisher(self.kafka()) as publisher:
            yield publisher.send

    @property
    def done(self) -> str:
        return "would send" if self.dry_run else "sent"


@command(label, "label")
class _Label(_SendOptions):
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
        from stream_icd.core.store.store import open_store
        from stream_icd.history.archive import Archive, Selection
        from stream_icd.kafka.messages.claims import ClaimCheck
        from stream_icd.kafka.messages.records import outgoing
        from stream_icd.kafka.topics import LABELS
        from stream_icd.sources.node_tables import label_groups
        from stream_icd.wire.communities import encode_labels

        groups, store = label_groups(self.table), open_store(self.archive)
        Archive(store).refuse_nothing([Selection("snapshots", self.graph)])
        fitting = ClaimCheck(self.kafka(check=False))
        with self.sending() as send:

            def send_one(labels: Labels) -> None:
                record = outgoing(LABELS, encode_labels(labels))
                send(record if self.dry_run else fitting(record))

            counts = _send_labels(groups, store, send_one, self.graph, self.source)
        say(
            f"{self.done} {counts.nodes} labels of {counts.windows} windows "
            f"({counts.partly} partly)"
        )
        if counts.unknown_nodes:
            say(f"{counts.unknown_nodes} labels are of nodes that their window does not have")
        if counts.unknown_windows:
            some = ", ".join(str(window) for window in counts.unknown_windows[:5])
            say(f"{len(counts.unknown_windows)} windows are not archived, such as {some}")


@command(known, "known")
class _SendKnown(_SendOptions):
    """Send which nodes are known to be in one community to icd.known.v1.

    A message for each node whose label differs from that in the topic. Detectors that run with
    --known topic use them from the next batch on.

      stream-icd known teams.csv --graph mails
      stream-icd consume detect --known topic
    """

    table: Path = argument(
        "CSV, JSON lines or Parquet with the columns node and community: nodes of one label are in "
        "one community."
    )
    graph: OnlyGraph = None
    replace: bool = option(False, "Take back what is known of nodes that are not in the table.")
    source: str = option("stream_icd/known", "Source of the knowledge, a URI reference.")

    def run(self) -> None:
        from stream_icd.sources.node_tables import read_known
        from stream_icd.streaming.subscribers.known_topic import known_in_topic

        tables = read_known(self.table, self.graph)
        in_topic = known_in_topic(self.kafka())  # all of it: only differences are sent
        with self.sending() as send:
            for graph, labels in tables.items():
                before = in_topic.labels(graph)
                changed = {n: label for n, label in labels.items() if label != before.get(n)}
                gone = sorted(before.keys() - labels.keys()) if self.replace else []
                for record in self._records(graph, changed, gone):
                    send(record)
                say(
                    f"{graph}: {self.done} the communities of {len(changed):,} nodes "
                    f"({len(labels) - len(changed):,} are as they were)"
                    + (f"; took back those of {len(gone):,}" if self.replace else "")
                )

    def _records(
        self, graph: str, changed: Mapping[str, str], gone: Iterable[str]
    ) -> Iterator[OutgoingRecord]:
        from stream_icd.kafka.messages.records import outgoing
        from stream_icd.kafka.record import OutgoingRecord
        from stream_icd.kafka.topics import KNOWN
        from stream_icd.wire.nodes import encode_known, node_key

        now = datetime.now(UTC)
        for node, label in changed.items():
            yield outgoing(KNOWN, encode_known(graph, node, label, now, self.source))
        for node in gone:
            yield OutgoingRecord(KNOWN, None, node_key(graph, node))


@dataclass(slots=True)
class _LabelCounts:
    windows: int = 0  # sent
    nodes: int = 0  # sent
    partly: int = 0  # windows that were sent, and have nodes without a label
    unknown_nodes: int = 0  # labels, not sent, of nodes that none of their windows has
    unknown_windows: list[WindowName] = field(default_factory=list)  # not in the archive


def _send_labels(
    groups: Mapping[WindowName, LabelOfNode],
    store: Store,
    send: Callable[[Labels], None],
    graph: str | None,
    source: str,
) -> _LabelCounts:
    """Join labels of `label_groups` with the windows of an archive, and send them.

    Raises `BadSettings`, before anything is sent, if a window without a graph may be of several
    graphs (none is chosen by `graph`), or has two names.
    """
    import pyarrow as pa

    from stream_icd.history.archive import Archive

    archived, counts = _archived(store, graph), _LabelCounts()
    # All are checked before the first is sent: a later table could not take labels back.
    named = {name: _named(archived, name) for name in groups}
    _refuse_two_names(named)
    for name, label_of in groups.items():
        if not named[name]:
            counts.unknown_windows.append(name)
            continue
        unseen = set(label_of)
        for noted in named[name]:
            snapshot = Archive(store).read_snapshot(noted)
            labels = _labels(snapshot, label_of, source)
            if labels is not None:
                send(labels)
                unseen.difference_update(labels.nodes.cast(pa.string()).to_pylist())
                counts.windows += 1
                counts.nodes += len(labels.nodes)
                counts.partly += len(labels.nodes) < snapshot.n_nodes
        counts.unknown_nodes += len(unseen)
    return counts


def _archived(store: Store, graph: str | None) -> _Archived:
    """The archived windows by the names that a table may give them."""
    from stream_icd.history.archive import Archive, Selection
    from stream_icd.sources.node_tables import WindowName

    named: _Archived = defaultdict(dict)
    stems: _Archived = defaultdict(dict)
    for noted in Archive(store).windows(Selection("snapshots", graph)):
        of_graph = noted.partition.graph
        named[of_graph].setdefault(None, []).append(noted)
        *own, stem = WindowName.windows(of_graph, noted.identity.snapshot_id, noted.window.start)
        named[of_graph] |= {name: [noted] for name in own}
        stems[of_graph][stem] = [noted]
    return {of_graph: stems[of_graph] | names for of_graph, names in named.items()}


def _named(archived: _Archived, name: WindowName) -> list[ArchivedWindow]:
    """The windows of that name, of one graph: at most one, or all of it."""
    graphs = archived if name.graph is None else [name.graph]
    having = [graph for graph in graphs if name.window in archived.get(graph, {})]
    if len(having) > 1:
        raise BadSettings(
            f"the labels of {str(name) or 'each window'} may be those of {len(having)} graphs, "
            f"{listed(having)}: choose one with --graph, or add the column graph"
        )
    return [window for graph in having for window in archived[graph][name.window]]


def _refuse_two_names(named: Mapping[WindowName, Sequence[ArchivedWindow]]) -> None:
    """Check that no window has two names: the labels of one would replace those of the other."""
    name_of: dict[tuple[str, str], WindowName] = {}
    for name, of_name in named.items():
        for noted in of_name:
            if (first := name_of.setdefault(noted.name, name)) != name:
                names = " and ".join(map(repr, map(str, (first, name))))
                raise BadSettings(
                    f"{names} are names of the same window, {noted.identity.snapshot_id}: give all "
                    "its labels one name, and all rows a graph or none"
                )


def _labels(snapshot: Snapshot, label_of: LabelOfNode, source: str) -> Labels | None:
    """The labels of the nodes that the snapshot has; None if it has none of them."""
    import numpy as np
    import pyarrow as pa

    from stream_icd.core.communities import Labels

    names = snapshot.nodes.cast(pa.string()).to_pylist()
    is_labelled = np.array([name in label_of for name in names])
    if not is_labelled.any():
        return None
    communities = [label_of[name] for name in names if name in label_of]
    numbers = np.unique(communities, return_inverse=True)[1].astype(np.int32)
    nodes = snapshot.nodes.filter(pa.array(is_labelled))
    return Labels(snapshot.graph, snapshot.id, snapshot.window, nodes, numbers, source)
