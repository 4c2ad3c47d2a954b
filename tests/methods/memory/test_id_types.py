"""Ids of one value are one node, whatever the width of their type: pandas and polars differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.communities import Communities, Labels
from stream_icd.core.events import CommunityEvents
from stream_icd.core.node_ids import in_schema, places
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.history.replay.compare import churn
from stream_icd.learning.retraining.windows import Lesson
from stream_icd.methods.memory.encoding import (
    METADATA,
    decode_memory,
    enclosed,
    encode_memory,
    table_of_nodes,
)
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import decode_communities, encode_communities
from stream_icd.wire.events import decode_events, encode_events
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.methods.memory.streams import detected, hour, model
from tests.testbed.windows import follow, window

INTEGERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
]  # fmt: skip
HIGH = 1 << 63
Mixed = tuple[pa.DataType, pa.DataType, Callable[[int], int | str]]
MIXED: list[Mixed] = [
    *((kind, pa.int64(), int) for kind in INTEGERS),
    *((pa.int64(), kind, int) for kind in INTEGERS),
    (pa.string(), pa.large_string(), str),
    (pa.large_string(), pa.string(), str),
    (pa.string_view(), pa.large_string(), str),
]


def cliques(
    number: int, kind: pa.DataType, named: Callable[[int], int | str] = int, *more: int
) -> Snapshot:
    """Cliques of ten; every second window lacks one of them, and has `more` nodes."""
    groups = [range(start, start + 10) for start in range(0, 40 - 10 * (number % 2), 10)]
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    pairs += [(0, node) for node in more]
    src, dst = (pa.array([named(node) for node in one], kind) for one in zip(*pairs, strict=True))
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=hour(number))


def communities(snapshot: Snapshot) -> Communities:
    """Each clique; nodes beyond them belong to the first one."""
    clique = [int(node) // 10 if int(node) < 40 else 0 for node in snapshot.nodes.to_pylist()]
    found = window(0, clique, snapshot.nodes)
    return replace(found, snapshot_id=snapshot.id, window=snapshot.window)


@pytest.mark.parametrize(("one", "other", "named"), MIXED, ids=str)
def test_windows_of_mixed_types_give_the_bytes_of_one_type(
    one: pa.DataType, other: pa.DataType, named: Callable[[int], int | str]
) -> None:
    usual = pa.string() if named is str else pa.int64()
    mixed = [cliques(n, (one, other)[n % 2], named) for n in range(5)]
    alike = [cliques(n, usual, named) for n in range(5)]
    assert [encode_snapshot(w) for w in mixed] == [encode_snapshot(w) for w in alike]
    found = detected(mixed)
    for ours, theirs in zip(found, detected(alike), strict=True):
        assert encode_memory(ours.memory) == encode_memory(theirs.memory)
        assert ours.community_ids.tolist() == theirs.community_ids.tolist()
    smoothed, expected = (detect_smoothed(each, model()) for each in (mixed, alike))
    for ours, theirs in zip(smoothed, expected, strict=True):
        assert ours.community_ids.tolist() == theirs.community_ids.tolist()
    events = tracked(mixed)[-1]
    assert found[-1].memory.next_id == events.next_community == 4
    assert {event.community for event in events.events} == {0, 1, 2, 3}


def tracked(snapshots: list[Snapshot]) -> list[CommunityEvents]:
    return follow(map(communities, snapshots))


def rewritten(table: pa.Table, kind: pa.DataType, *names: str) -> bytes:
    """The same table with another type of ids, as another program would write it."""
    for name in names:
        at, column = table.schema.get_field_index(name), table[name]
        wide = pa.list_(kind) if pa.types.is_list(column.type) else kind
        table = table.set_column(at, name, column.cast(wide))
    return write_table(table)


def test_every_decoder_widens() -> None:
    snapshot = cliques(0, pa.int64())
    of_snapshot, of_result = encode_snapshot(snapshot), encode_communities(communities(snapshot))
    of_events = encode_events(tracked([snapshot])[0])
    for message, encode, decode, columns in (
        (of_snapshot, encode_snapshot, decode_snapshot, ("src", "dst")),
        (of_result, encode_communities, decode_communities, ("node",)),
        (of_events, encode_events, decode_events, ("members",)),
    ):
        value = rewritten(pa.ipc.open_stream(message.value).read_all(), pa.int8(), *columns)
        assert value != message.value
        assert encode(decode(message.key, value, message.headers)) == message
    memory = encode_memory(detected([snapshot])[0].memory)
    rest = json.loads(pa.ipc.open_stream(memory).schema.metadata[METADATA])
    value = rewritten(table_of_nodes(memory), pa.uint32(), "node")
    narrow = enclosed(pa.ipc.open_stream(value).read_all(), rest)
    assert narrow != memory
    assert encode_memory(decode_memory(narrow)) == memory


@pytest.mark.parametrize("extra", [[(), (HIGH,)], [(HIGH,), ()], [(HIGH,), (HIGH + 1,)]], ids=str)
def test_ids_above_int64_come_and_go(extra: list[tuple[int, ...]]) -> None:
    windows = [cliques(n, pa.uint64(), int, *extra[n % 2]) for n in range(5)]
    found = detected(windows)
    assert found[-1].n_continued == 4
    assert found[-1].memory.next_id == 4
    assert set(found[-1].memory.nodes.to_pylist()) == {*range(40), *extra[0], *extra[1]}
    assert tracked(windows)[-1].next_community == 4
    assert churn(communities(windows[0]), communities(windows[1])) == 0


def test_a_table_of_smaller_ids_fits_the_schema_of_large_ones() -> None:
    small, large = (
        pa.table({"node": ids, "members": pa.ListArray.from_arrays([0, 1], ids), "graph": ["g"]})
        for ids in (pa.array([1]), pa.array([HIGH], pa.uint64()))
    )
    assert in_schema(small, large.schema) == small.cast(large.schema)
    assert in_schema(large, small.schema) is None
    texts = small.set_column(0, "node", pa.array(["1"]))
    assert in_schema(texts, small.schema) is None
    assert in_schema(small, texts.schema) is None


def test_a_negative_id_is_never_one_above_int64_and_no_number_is_a_text() -> None:
    below = pa.array([-HIGH, -1, 5], pa.int64())
    above = pa.array([5, HIGH, 2 * HIGH - 1], pa.uint64())
    assert places(below, above).tolist() == [-1, -1, 0]
    assert places(above, below).tolist() == [2, -1, -1]
    windows = [cliques(0, pa.int64(), int, -1), cliques(2, pa.uint64(), int, 2 * HIGH - 1)]
    assert detected(windows)[-1].n_continued == 4
    numbers, texts = cliques(0, pa.int64()), cliques(2, pa.string(), str)
    first, second = detected([numbers, texts])
    assert second.n_continued == 0
    assert second.community_ids.min() >= first.memory.next_id
    assert second.memory.nodes.type == pa.string()
    assert tracked([numbers, texts])[-1].next_community == 8


def test_labels_belong_to_the_same_nodes() -> None:
    snapshot = cliques(0, pa.int64(), int, HIGH - 1)
    for kind in INTEGERS:
        nodes, known = pa.array(range(40), kind), (np.arange(40) // 10).astype(np.int32)
        labels = Labels("g", "g/0", snapshot.window, nodes, known)
        joined = Lesson.of(snapshot, labels).labels
        assert joined is not None
        assert (joined >= 0).sum() == 40
        assert labels.nodes.type == pa.int64()
