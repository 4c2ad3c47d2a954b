"""Reads the members topic, which is the only state of a worker that writes rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from stream_icd.core.errors import BadInput
from stream_icd.core.members import MemberRow, Members
from stream_icd.core.node_ids import id_array, values_of, widened
from stream_icd.core.snapshot import EPOCH
from stream_icd.core.times import microseconds
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.streaming.subscribers.subscription import log_bad
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.nodes import decode_member, graph_in_key

_A_ROW = 600
"""Bytes of a row's Python objects and headers, about."""


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
        before = rows.pop(key, None)
        if record.value is not None:
            rows[key] = record
        grown = _size(record) - (0 if before is None else _size(before))
        self.sizes[graph] = self.sizes.get(graph, 0) + grown
        self.n_bytes += grown
        if self.n_bytes > self.most_bytes and len(self.rows) > 1:
            largest = max(self.sizes, key=lambda one: (one != graph, self.sizes[one]))
            self.n_bytes -= self.sizes.pop(largest)
            del self.rows[largest]
            self.left_out.add(largest)


def _size(record: Record) -> int:
    return 0 if record.value is None else _A_ROW + len(record.value)


def read_members(
    settings: KafkaSettings,
    topic: str,
    graphs: Collection[str] | None = None,
    most_bytes: float = inf,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[dict[str, Members], set[str]]:
    """Return the members of each graph by the rows that a topic holds now.

    Also the graphs that were left out, since all together take more than `most_bytes` while they
    are read. A row that breaks the contract is logged and left out.

    Raises `TopicMissing`, `BrokerUnavailable`.
    """
    newest = _Newest(graphs, most_bytes, limits)
    # A broker may say that a transaction is committed before its records can be read.
    with open_reader(settings, topic, until="settled") as records:
        for record in records:
            newest.take(record)
    found = {graph: _members(rows.values(), limits) for graph, rows in newest.rows.items()}
    return {graph: members for graph, members in found.items() if members}, newest.left_out


def _members(records: Iterable[Record], limits: Limits) -> Members | None:
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
    own = [np.nan if row.probability is None else row.probability for row in rows]
    return Members(
        end=max(microseconds(row.as_of - EPOCH) for row in rows),
        nodes=nodes,
        community_ids=np.array([row.community_id for row in rows], np.int64),
        since=np.array([microseconds(row.since - EPOCH) for row in rows], np.int64),
        probabilities=np.array(own, np.float32),
        names={row.community_id: row.name for row in rows if row.name is not None},
    )
