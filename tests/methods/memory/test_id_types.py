"""Ids of one value are one node, whatever the width of their type: pandas and polars differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.communities import STAGES, Communities, Labels
from stream_icd.core.events import CommunityEvents
from stream_icd.core.node_ids import in_schema, places
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.history.replay.compare import churn
from stream_icd.learning.retraining.windows import lesson
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import (
    METADATA,
    decode_memory,
    enclosed,
    encode_memory,
    table_of_nodes,
)
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.model import Model
from stream_icd.methods.tracking.track import TrackSettings, track
from stream_icd.wire.communities import decode_communities, encode_communities
from stream_icd.wire.events import decode_events, encode_events
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot

HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = Model(preset("L(f,0.3)"), BpParameters(resolution=2.0, mixing=0.3, iterations=1))
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


def name_of(given: object) -> str:
    return given.__name__ if isinstance(given, type) else str(given)


def cliques(
    number: int, kind: pa.DataType, named: Callable[[int], int | str] = int, *more: int
) -> Snapshot:
    """Cliques of ten; every second window lacks one of them, and has `more` nodes."""
    groups = [range(start, start + 10) for start in range(0, 40 - 10 * (number % 2), 10)]
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    pairs += [(0, node) for node in more]
    src, dst = (pa.array([named(node) for node in one], kind) for one in zip(*pairs, strict=True))
    window = Window(START + number * HOUR, START + (number + 1) * HOUR)
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=window)


def remembered(snapshots: list[Snapshot]) -> list[Remembered]:
    found: list[Remembered] = []
    for snapshot in snapshots:
        memory = decode_memory(encode_memory(found[-1].memory)) if found else None
        found.append(detect_remembering(snapshot, MODEL, memory))
    return found


def communities(snapshot: Snapshot) -> Communities:
    """Each clique; nodes beyond them belong to the first one."""
    clique = [int(node) // 10 if int(node) < 40 else 0 for node in snapshot.nodes.to_pylist()]
    return Communities(
        graph=snapshot.graph,
        snapshot_id=snapshot.id,
        window=snapshot.window,
        nodes=snapshot.nodes,
        labels=np.array(clique, np.int32),
        n_edges=snapshot.n_edges,
        model="m@1",
        modularity=0.5,
        ncut=0.5,
        milliseconds=dict.fromkeys(STAGES, 0.0),
        detected_at=START,
    )


@pytest.mark.parametrize(("one", "other", "named"), MIXED, ids=name_of)
def test_windows_of_mixed_types_give_the_bytes_of_one_type(
    one: pa.DataType, other: pa.DataType, named: Callable[[int], int | str]
) -> None:
    usual = pa.string() if named is str else pa.int64()
    mixed = [cliques(n, (one, other)[n % 2], named) for n in range(5)]
    alike = [cliques(n, usual, named) for n in range(5)]
    assert [encode_snapshot(w) for w in mixed] == [encode_snapshot(w) for w in alike]
    for ours, theirs in zip(remembered(mixed), remembered(alike), strict=True):
        assert encode_memory(ours.memory) == encode_memory(theirs.memory)
        assert ours.community_ids.tolist() == theirs.community_ids.tolist()
    assert remembered(mixed)[-1].memory.next_id == 4
    smoothed, expected = (detect_smoothed(each, MODEL) for each in (mixed, alike))
    for ours, theirs in zip(smoothed, expected, strict=True):
        assert ours.community_ids.tolist() == theirs.community_ids.tolist()


def tracked(snapshots: list[Snapshot]) -> list[CommunityEvents]:
    recent: tuple[CommunityEvents, ...] = ()
    for snapshot in snapshots:
        recent = (*recent, track(recent, communities(snapshot), TrackSettings()))
    return list(recent)


@pytest.mark.parametrize(("one", "other", "named"), MIXED, ids=name_of)
def test_trackers_see_the_same_nodes(
    one: pa.DataType, other: pa.DataType, named: Callable[[int], int | str]
) -> None:
    events = tracked([cliques(n, (one, other)[n % 2], named) for n in range(5)])
    assert events[-1].next_community == 4
    assert {event.community for event in events[-1].events} == {0, 1, 2, 3}


def rewritten(found: pa.Table, name: str, kind: pa.DataType) -> bytes:
    """The same table with another type of ids, as another program would write it."""
    at = found.schema.get_field_index(name)
    column = found[name]
    wide = pa.list_(kind) if pa.types.is_list(column.type) else kind
    table = found.set_column(at, name, column.cast(wide))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_every_decoder_widens() -> None:
    snapshot = cliques(0, pa.int64())
    result = communities(snapshot)
    message = encode_communities(result)
    value = rewritten(pa.ipc.open_stream(message.value).read_all(), "node", pa.uint16())
    decoded = decode_communities(message.key, value, message.headers)
    assert encode_communities(decoded) == message

    message = encode_events(tracked([snapshot])[0])
    value = rewritten(pa.ipc.open_stream(message.value).read_all(), "members", pa.int16())
    assert encode_events(decode_events(message.key, value, message.headers)) == message

    memory = encode_memory(remembered([snapshot])[0].memory)
    table, rest = table_of_nodes(memory), pa.ipc.open_stream(memory).schema.metadata[METADATA]
    value = rewritten(table, "node", pa.uint32())
    narrow = enclosed(pa.ipc.open_stream(value).read_all(), json.loads(rest))
    assert narrow != memory
    assert encode_memory(decode_memory(narrow)) == memory

    message = encode_snapshot(snapshot)
    table = pa.ipc.open_stream(message.value).read_all()
    columns = {name: table[name].cast(pa.int8()) for name in table.column_names}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    narrow = decode_snapshot(message.key, bytes(sink.getvalue()), message.headers)
    assert encode_snapshot(narrow) == message


@pytest.mark.parametrize("extra", [[(), (HIGH,)], [(HIGH,), ()], [(HIGH,), (HIGH + 1,)]], ids=str)
def test_ids_above_int64_come_and_go(extra: list[tuple[int, ...]]) -> None:
    windows = [cliques(n, pa.uint64(), int, *extra[n % 2]) for n in range(5)]
    found = remembered(windows)
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


def test_a_negative_id_is_never_one_above_int64() -> None:
    below = pa.array([-HIGH, -1, 5], pa.int64())
    above = pa.array([5, HIGH, 2 * HIGH - 1], pa.uint64())
    assert places(below, above).tolist() == [-1, -1, 0]
    assert places(above, below).tolist() == [2, -1, -1]
    windows = [cliques(0, pa.int64(), int, -1), cliques(2, pa.uint64(), int, 2 * HIGH - 1)]
    assert remembered(windows)[-1].n_continued == 4


def test_numbers_are_never_texts() -> None:
    numbers, texts = pa.array([1, 2]), pa.array(["1", "2"])
    assert places(numbers, texts).tolist() == [-1, -1]
    assert places(texts, numbers).tolist() == [-1, -1]
    first = cliques(0, pa.int64())
    assert tracked([first, cliques(2, pa.string(), str)])[-1].next_community == 8


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_labels_belong_to_the_same_nodes(kind: pa.DataType) -> None:
    snapshot = cliques(0, pa.int64(), int, HIGH - 1)
    known = np.arange(40) // 10
    labels = Labels("g", "g/0", snapshot.window, pa.array(range(40), kind), known.astype(np.int32))
    joined = lesson(snapshot, labels).labels
    assert joined is not None
    assert (joined >= 0).sum() == 40
    assert labels.nodes.type == pa.int64()
