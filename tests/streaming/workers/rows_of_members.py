"""Streams with stable ids for the tests of rows, and what rows must say of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from stream_icd.core.communities import Communities
from stream_icd.core.members import MemberRow
from stream_icd.kafka.record import Record
from stream_icd.wire.nodes import decode_member
from tests.streaming.workers.tracked import stream
from tests.testbed.brokers import Broker
from tests.testbed.streams import held

Table = dict[int | str, tuple[int, str]]
"""Of each node, the id of its community and since when."""


def with_ids(graph: str, n: int, seed: int = 3) -> list[Communities]:
    """`n` hours of communities with ids; from hour to hour, the first nodes go and come back."""
    return [_with_ids(one, hour) for hour, one in enumerate(stream(graph, n, seed))]


def _with_ids(one: Communities, hour: int) -> Communities:
    gone = hour % 3
    labels, nodes = one.labels[gone:], one.nodes[gone:]
    ids, labels = np.unique(labels, return_inverse=True)
    return replace(
        one,
        nodes=nodes,
        labels=labels.astype(np.int32),
        community_ids=ids.astype(np.int64),
        replaced=np.empty((0, 2), np.int64),
        probabilities=np.full(len(nodes), 0.75, np.float32),
        memory="continued",
    )


def table_after(windows: Iterable[Communities]) -> Table:
    """What a table of rows says after the windows."""
    table: Table = {}
    for window in windows:
        ids = window.ids_of_nodes
        assert ids is not None
        now = dict(zip(window.nodes.to_pylist(), ids.tolist(), strict=True))
        start = window.window.start.isoformat()
        table = {
            node: table[node] if table.get(node, (-1,))[0] == one else (one, start)
            for node, one in now.items()
        }
    return table


def rows_in(records: Iterable[Record]) -> Iterator[MemberRow | None]:
    """Each row, None for a deletion."""
    for record in records:
        if record.value is None:
            yield None
        else:
            yield decode_member(record.key, record.value, record.headers)


def folded(broker: Broker, topic: str, graph: str) -> Table:
    """The newest row of each node of a graph, as a reader of the topic folds it."""
    newest: dict[bytes | None, Record] = {}
    for record in held(broker, topic):
        newest[record.key] = record
    rows = (row for row in rows_in(newest.values()) if row is not None and row.graph == graph)
    return {row.node: (row.community_id, row.since.isoformat()) for row in rows}
