"""Community events survive the wire, and broken ones are named."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadEvents
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.headers import Headers
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.events import decode_events, encode_events, event_table, is_late
from tests.wire.samples import DAY, decoded, with_header


def tracked(communities: list[int], named: bool = False, late: bool = False) -> CommunityEvents:
    """Each community twice among the events, and one that is gone."""
    nodes = [f"AS{i:03}" if named else i for i in range(len(communities))]
    merged, split = [], []
    for label, community in enumerate(sorted(set(communities))):
        size = communities.count(community)
        merged.append(CommunityEvent("merged", community, label, size, 3, 0.5, (community, 90)))
        split.append(CommunityEvent("split", community, label, size, 3, 0.5, (), (4, 5), 2))
    return CommunityEvents(
        graph="as733",
        snapshot_id="as733/1999-04-02",
        window=DAY,
        model="as@1",
        nodes=pa.array(nodes, pa.string() if named else pa.int32()),
        communities=np.array(communities, np.int64),
        events=() if late else (*merged, *split, CommunityEvent("died", 99, None, 0, 7)),
        next_community=100,
        missed=2,
        late=late,
        model_before="as@0",
    )


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.booleans())
def test_what_is_sent_is_what_is_read(communities: list[int], named: bool) -> None:
    sent = tracked(communities, named)
    message = encode_events(sent)
    got = decoded(message, decode_events)
    for name in sent.__dataclass_fields__.keys() - {"nodes", "communities"}:
        assert getattr(got, name) == getattr(sent, name)
    assert got.nodes.equals(sent.nodes)
    assert got.communities.tolist() == communities
    assert encode_events(got) == message


def test_a_return_is_a_birth_for_earlier_readers_and_a_late_window_has_no_events() -> None:
    back = CommunityEvent("returned", 1, 0, 8, 7, 0.5, (), (), 2)
    born = CommunityEvent("born", 2, 1, 8, 0)
    message = encode_events(replace(tracked([1, 2]), events=(back, born)))
    table = pa.ipc.open_stream(message.value).read_all()
    assert table["event"].to_pylist() == ["born", "born"]
    assert table["members"].to_pylist() == [[0], [1]]
    assert decoded(message, decode_events).events == (back, born)
    assert TABLE["members"].to_pylist() == [[0, 2], [1], None, None, None]  # once for each
    late = encode_events(tracked([], late=True))  # an empty table
    got = decoded(late, decode_events)
    assert (got.late, got.events, len(got.nodes)) == (True, (), 0)
    assert is_late(late.headers)
    assert not is_late(message.headers)


def test_many_events_take_the_memory_that_they_need() -> None:
    (event, *_) = tracked([0]).events
    many = replace(tracked([0]), events=(event,) * 10_000)
    message = encode_events(many)
    tracemalloc.start()
    got = decoded(message, decode_events)
    of_events, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got.events == many.events
    assert most < 1.5 * of_events


TABLE, SENT = event_table(tracked([7, 8, 7])), encode_events(tracked([7, 8, 7]))


def column(name: str, values: pa.Array) -> dict[str, bytes]:
    return {"value": write_table(TABLE.set_column(TABLE.column_names.index(name), name, values))}


def header(name: str, text: str) -> dict[str, Headers]:
    return {"headers": with_header(SENT.headers, name, text)}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (column("event", pa.array(["eaten", *["born"] * 4])), "unknown event 'eaten'"),
        (column("community", pa.array([1, None, 3, 4, 5])), "nulls in community"),
        (column("community", pa.array([1] * 5, pa.int32())), "community has type int32"),
        (column("community", pa.array([7, 8, 7, 8, 100])), "community is 100"),  # it was not given
        (column("parents", pa.array([[100]] * 5)), "parents is 100"),
        (column("parents", pa.array([[None]] * 5, pa.list_(pa.int64()))), "nulls in parents"),
        (column("members", pa.array([[0.5]] * 5)), "a list of ids"),
        (column("members", pa.array([[1], [1], None, None, None])), "two communities"),
        (column("members", pa.array([[1], [None], None, None, None])), "null"),
        (column("size", pa.array([-1, 1, 1, 1, 1])), "size is -1"),
        (column("overlap", pa.array([float("nan")] * 5)), "overlap is nan"),
        (header("icd_missed", "-1"), "icd_missed"),
        (header("icd_late", "maybe"), "icd_late"),
        (header("icd_next_community", "1e3"), "icd_next_community"),
    ],
)
def test_a_broken_message_says_why(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadEvents, match=reason):
        decoded(SENT, decode_events, **changed)
