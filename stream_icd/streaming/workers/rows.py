"""Rows of members: reads communities, publishes the nodes that changed; that topic is the state."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import structlog

from stream_icd.core.arrays import Ids, Shares
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput
from stream_icd.core.node_ids import id_array, places, values_of, widened
from stream_icd.core.snapshot import EPOCH
from stream_icd.core.times import microseconds, time_at, too_far_ahead, utc_now
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Outcome, Processed, Refused, outgoing
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MEMBERS
from stream_icd.methods.names.names import Naming
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers.seen_results import MixedModels
from stream_icd.streaming.subscribers.subscription import log_bad
from stream_icd.streaming.workers.recent_windows import RecentWindows
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import result_id
from stream_icd.wire.nodes import MemberRow, decode_member, encode_member, graph_in_key, node_key

_NOT_FOLLOWED = ("damaged", "late")
"""What memory says of a window that lacks most nodes, or is not after the last one."""

_A_ROW = 600
"""Bytes of a row's Python objects and headers, about."""


@dataclass(frozen=True, slots=True, eq=False)
class _Members:
    """All nodes of a graph, as rows said last."""

    end: int  # of the last window that is known, microseconds since 1970 UTC
    nodes: pa.Array  # (n,) ascending (`node_ids.widened`)
    community_ids: Ids  # (n,)
    since: Ids  # (n,) microseconds since 1970 UTC
    probabilities: Shares  # (n,) NaN where not known
    names: Mapping[int, str]  # of communities, by id

    @property
    def n_bytes(self) -> int:
        of_ids = self.nodes.nbytes + self.community_ids.nbytes
        return int(of_ids + self.since.nbytes + self.probabilities.nbytes) + 100 * len(self.names)

    def changed_by(
        self, window: Communities, names: Mapping[int, str], least: float
    ) -> tuple[_Members, Ids, pa.Array]:
        """Return the members after a window with stable ids; what changes, and the nodes that left.

        What changes are positions among the nodes of the window: of a node that is new, of one
        whose community or the name of that is another one, and of one whose probability differs by
        `least` or more from that of its last row. All others keep what their rows say, so that a
        worker that reads these knows the same.
        """
        ids, at = window.ids_of_nodes, places(window.nodes, self.nodes)
        assert ids is not None  # the caller asks for windows with stable ids only
        was_there = at >= 0
        own = window.probabilities
        own = np.full(len(ids), np.nan, np.float32) if own is None else own
        start = np.full(len(ids), microseconds(window.window.start - EPOCH))
        stays, published = was_there, np.full(len(ids), np.nan, np.float32)
        if len(self.nodes):
            stays = was_there & (self.community_ids[at] == ids)
            published = np.where(was_there, self.probabilities[at], published)
            start = np.where(stays, self.since[at], start)
        # In hundredths, as they are published: a difference of `least` counts, whatever its bits.
        differs = (np.abs(own - published) >= least - 1e-6) | (np.isnan(own) != np.isnan(published))
        renamed = [id for id in set(ids.tolist()) if names.get(id) != self.names.get(id)]
        changed = ~stays | differs | np.isin(ids, renamed)
        after = _Members(
            end=microseconds(window.window.end - EPOCH),
            nodes=window.nodes,
            community_ids=ids,
            since=start,
            probabilities=np.where(changed, own, published),
            names={id: name for id, name in names.items() if name is not None},
        )
        left = self.nodes.filter(pa.array(places(self.nodes, window.nodes) < 0))
        return after, np.flatnonzero(changed), left


_NOTHING = _Members(
    end=microseconds(datetime.min.replace(tzinfo=EPOCH.tzinfo) - EPOCH),
    nodes=pa.array([], pa.int64()),
    community_ids=np.empty(0, np.int64),
    since=np.empty(0, np.int64),
    probabilities=np.empty(0, np.float32),
    names={},
)
"""Of a graph without rows."""


@dataclass(eq=False)
class RowWriter(Step):
    """Publishes a row for each node whose community changed, and a deletion for each that left.

    It reads the members topic whenever partitions are assigned: another worker may have written
    rows of their graphs. Raises `TopicMissing` or `BrokerUnavailable` if it cannot.

    Attributes:
        least: a row is published again if its probability differs by this.
        model: only results of this model, by its name or version; None: all.
    """

    kafka: KafkaSettings
    least: float = 0.1
    model: str | None = None
    graph: str | None = None  # read only the rows of this graph; None: all
    naming: Naming | None = None
    topic: str = MEMBERS
    reader: MessageReader = field(default_factory=MessageReader)
    memory: MemorySettings = field(default_factory=MemorySettings)

    def __post_init__(self) -> None:
        self._members = RecentWindows[_Members](self.memory.cache_bytes)
        self._is_caught_up = False
        self._without_ids: set[str] = set()
        self._models = MixedModels()

    def assigned(self, partitions: Collection[int]) -> None:  # noqa: ARG002
        self._members, self._is_caught_up = RecentWindows(self.memory.cache_bytes), False

    def begin(self, records: Sequence[Record]) -> None:
        """Forget what a batch has changed that was not committed; read rows that are missing."""
        self._members.begin()
        graphs = {record.key_text for record in records}
        if not self._is_caught_up:
            self._read(None if self.graph is None else {self.graph}, self.memory.cache_bytes)
            self._is_caught_up = True
        if missing := self._members.missing(graphs):  # all at once: the topic is read whole
            self._read(missing)

    def process(self, record: Record) -> Outcome:
        """Return the rows that a window changes."""
        try:
            communities = self.reader.decoded(record, decode_communities)
        except BadInput as error:
            return Refused("decode", error)
        graph, model = communities.graph, communities.model
        if self.model not in (None, model, model.rpartition("@")[0]):
            return Processed("no rows: of another model")
        if too_far_ahead(communities.window, utc_now()):  # all later windows would be late
            return Processed("no rows: the window ends too far in the future")
        if communities.memory in _NOT_FOLLOWED:
            return Processed(f"no rows: the window is {communities.memory}")
        if communities.community_ids is None:
            self._warn_without_ids(graph)
            return Processed("no rows: there are no stable ids")
        if warning := self._models.look_at(graph, model):
            structlog.get_logger().warning(f"{warning}; choose one with --model")
        if self._members.missing({graph}):  # all at once were too much
            self._read({graph})
        (before,) = self._members.get(graph) or (_NOTHING,)
        if microseconds(communities.window.end - EPOCH) < before.end:
            return Processed("no rows: a later window is known")
        names = self._names(communities)
        after, changed, left = before.changed_by(communities, names, self.least)
        self._members.change(graph, (after,))
        rows = tuple(_rows_of(communities, after, changed, left, self.topic))
        facts = {"changed": len(changed), "left": len(left)}
        return Processed("rows", facts, rows)

    def forget(self, record: Record) -> None:  # noqa: ARG002
        self._members.undo()

    def done(self, batch: BatchDone) -> None:  # noqa: ARG002
        self._members.commit()

    def _names(self, communities: Communities) -> Mapping[int, str]:
        ids = communities.ids_of_nodes
        if self.naming is None or ids is None:
            return {}
        window = self.naming.window(communities.graph, communities.nodes, ids)
        named = {} if window is None else window.names()
        # Without counts, which would change the rows of all members with each of them.
        return {community: name.briefly() for community, name in named.items()}

    def _warn_without_ids(self, graph: str) -> None:
        if graph not in self._without_ids:
            self._without_ids.add(graph)
            structlog.get_logger().warning(
                "results without stable ids have no rows: detect with memory (logged once per "
                "graph)",
                graph=graph,
            )

    def _read(self, graphs: Collection[str] | None, most_bytes: float = np.inf) -> None:
        """Read the rows that the topic holds now; let go of graphs that take more than that.

        A row that breaks the contract is logged and left out.
        """
        newest = _Newest(graphs, most_bytes, self.reader.limits)
        # A broker may say that a transaction is committed before its records can be read.
        with open_reader(self.kafka, self.topic, until="settled") as records:
            for record in records:
                newest.take(record)
        # Also graphs without rows, which would be read again for each window.
        for graph in graphs or ():
            self._members.put(graph, ())
        n_graphs = n_rows = 0
        for graph, rows in newest.rows.items():
            if members := _members(rows.values(), self.reader.limits):
                self._members.put(graph, (members,))
                n_graphs, n_rows = n_graphs + 1, n_rows + len(members.nodes)
        for graph in newest.left_out:
            self._members.leave(graph)
        structlog.get_logger().info("rows read", graphs=n_graphs, rows=n_rows)


def _rows_of(
    window: Communities, after: _Members, changed: Ids, left: pa.Array, topic: str
) -> Iterator[OutgoingRecord]:
    """Yield the deletions of nodes that left, then the rows of those that changed."""
    for node in left.to_pylist():
        yield OutgoingRecord(topic, None, node_key(window.graph, node))
    event = result_id(window.snapshot_id, window.model, window.revision)
    for at, node in zip(changed.tolist(), after.nodes.take(changed).to_pylist(), strict=True):
        community, probability = int(after.community_ids[at]), float(after.probabilities[at])
        member = MemberRow(
            graph=window.graph,
            node=node,
            community_id=community,
            since=time_at(int(after.since[at])),
            as_of=window.window.end,
            snapshot_id=window.snapshot_id,
            probability=None if math.isnan(probability) else round(probability, 2),
            name=after.names.get(community),
        )
        yield outgoing(topic, encode_member(member, f"{event}#{at}"))


def _members(records: Iterable[Record], limits: Limits) -> _Members | None:
    rows: list[MemberRow] = []
    for record in records:
        try:
            rows.append(decode_member(record.key, record.value or b"", record.headers, limits))
        except BadInput as error:
            log_bad(record, error)
    if not rows:
        return None
    numbers = [row for row in rows if isinstance(row.node, int)]
    if len(numbers) < len(rows):  # ids are of one kind: those of the newest window
        newest = max(rows, key=lambda row: row.as_of)
        rows = numbers if isinstance(newest.node, int) else [r for r in rows if r not in numbers]
    rows.sort(key=lambda row: row.node)
    nodes = widened(values_of(id_array([row.node for row in rows])))
    probabilities = [np.nan if row.probability is None else row.probability for row in rows]
    return _Members(
        end=max(microseconds(row.as_of - EPOCH) for row in rows),
        nodes=nodes,
        community_ids=np.array([row.community_id for row in rows], np.int64),
        since=np.array([microseconds(row.since - EPOCH) for row in rows], np.int64),
        probabilities=np.array(probabilities, np.float32),
        names={row.community_id: row.name for row in rows if row.name is not None},
    )


@dataclass(slots=True)
class _Newest:
    """The newest row of each node of each graph, by key."""

    graphs: Collection[str] | None
    most_bytes: float
    limits: Limits
    rows: dict[str, dict[bytes, Record]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    n_bytes: int = 0
    left_out: set[str] = field(default_factory=set)

    def take(self, record: Record) -> None:
        try:
            graph = graph_in_key(record.key, self.limits)
        except BadInput as error:
            log_bad(record, error)
            return
        if graph in self.left_out or (self.graphs is not None and graph not in self.graphs):
            return
        key, rows = record.key or b"", self.rows.setdefault(graph, {})
        previous_row = rows.pop(key, None)
        if record.value is not None:
            rows[key] = record
        growth = _size_of_row(record) - (0 if previous_row is None else _size_of_row(previous_row))
        self.sizes[graph] = self.sizes.get(graph, 0) + growth
        self.n_bytes += growth
        if self.n_bytes > self.most_bytes and len(self.rows) > 1:
            largest = max(self.sizes, key=lambda name: (name != graph, self.sizes[name]))
            self.n_bytes -= self.sizes.pop(largest)
            del self.rows[largest]
            self.left_out.add(largest)


def _size_of_row(record: Record) -> int:
    return 0 if record.value is None else _A_ROW + len(record.value)
