"""Community events survive the wire, and broken ones are named."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadEvents
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.events import decode_events, encode_events, event_table, is_late
from tests.wire.samples import DAY, with_header


def tracked(communities: list[int], named: bool = False, late: bool = False) -> CommunityEvents:
    nodes = [f"AS{i:03}" if named else i for i in range(len(communities))]
    there = [
        CommunityEvent("merged", c, i, communities.count(c), 3, 0.5, (c, 90), (), 0)
        for i, c in enumerate(sorted(set(communities)))
    ]
    twice = [CommunityEvent("split", e.community, e.label, e.size, 3, 0.5, (), (4, 5), 2)
             for e in there]  # fmt: skip
    gone = CommunityEvent("died", 99, None, 0, 7)
    return CommunityEvents(
        graph="as733",
        snapshot_id="as733/1999-04-02",
        window=DAY,
        model="as@1",
        nodes=pa.array(nodes, pa.string() if named else pa.int32()),
        communities=np.array(communities, np.int64),
        events=() if late else (*there, *twice, gone),
        next_community=100,
        missed=2,
        late=late,
        model_before="as@0",
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.booleans())
def test_what_is_told_is_what_is_read(communities: list[int], named: bool) -> None:
    sent = tracked(communities, named)
    message = encode_events(sent)
    got = decode_events(message.key, message.value, message.headers)
    assert got.nodes.equals(sent.nodes)
    assert got.communities.tolist() == communities
    for name in ("graph", "snapshot_id", "window", "model", "events", "next_community", "missed",
                 "late", "model_before"):  # fmt: skip
        assert getattr(got, name) == getattr(sent, name)
    assert encode_events(got) == message


def test_a_return_is_a_birth_for_readers_that_know_no_such_event() -> None:
    back = CommunityEvent("returned", 1, 0, 8, 7, 0.5, (), (), 2)
    born = CommunityEvent("born", 2, 1, 8, 0)
    sent = replace(tracked([1, 2]), events=(back, born))
    message = encode_events(sent)
    table = pa.ipc.open_stream(message.value).read_all()
    assert table["event"].to_pylist() == ["born", "born"]
    assert decode_events(message.key, message.value, message.headers).events == (back, born)
    assert table["members"].to_pylist() == [[0], [1]]
    assert TABLE["members"].to_pylist() == [[0, 2], [1], None, None, None]  # once for each
    message = encode_events(tracked([], late=True))  # an empty table
    got = decode_events(message.key, message.value, message.headers)
    assert (got.late, got.events, len(got.nodes)) == (True, (), 0)
    assert is_late(message.headers)
    assert not is_late(encode_events(sent).headers)


def test_many_events_take_the_memory_that_they_need() -> None:
    (event, *_) = tracked([0]).events
    many = replace(tracked([0]), events=(event,) * 10_000)
    message = encode_events(many)
    tracemalloc.start()
    got = decode_events(message.key, message.value, message.headers)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got.events == many.events
    assert most < 1.5 * kept


TABLE = event_table(tracked([7, 8, 7]))
BAD_TABLES = {
    "an unknown event": ("event", pa.array(["born", "eaten", "born", "born", "born"]), "'eaten'"),
    "a null id": ("community", pa.array([1, None, 3, 4, 5]), "nulls in community"),
    "int32 ids": ("community", pa.array([1] * 5, pa.int32()), "community has type int32"),
    "members that are no ids": ("members", pa.array([[0.5]] * 5), "a list of ids"),
    "a node twice": ("members", pa.array([[1], [1], None, None, None]), "two communities"),
    "a negative size": ("size", pa.array([-1, 1, 1, 1, 1]), "size is -1"),
    "an overlap that is no number": ("overlap", pa.array([float("nan")] * 5), "overlap is nan"),
    "an id that was never given": ("community", pa.array([7, 8, 7, 8, 100]), "community is 100"),
    "a parent that was never given": ("parents", pa.array([[100]] * 5), "parents is 100"),
    "a null parent": ("parents", pa.array([[None]] * 5, pa.list_(pa.int64())), "nulls in parents"),
    "a null node": ("members", pa.array([[1], [None], None, None, None]), "null"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_says_why(name: str) -> None:
    column, values, reason = BAD_TABLES[name]
    table = TABLE.set_column(TABLE.column_names.index(column), column, values)
    message = encode_events(tracked([7, 8, 7]))
    with pytest.raises(BadEvents, match=reason):
        decode_events(message.key, write_table(table), message.headers)
    headers = {"icd_missed": b"-1", "icd_late": b"maybe", "icd_next_community": b"1e3"}
    for header, value in headers.items():
        with pytest.raises(BadEvents, match=header):
            decode_events(message.key, message.value, with_header(message.headers, header, value))
