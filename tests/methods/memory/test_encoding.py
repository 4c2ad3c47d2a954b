"""A detector's memory survives as bytes, exactly; what is none is refused, or used without harm."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.communities import MOST_IDS, Communities, Labels
from stream_icd.core.errors import BadMemory, LimitExceeded
from stream_icd.core.events import CommunityEvents
from stream_icd.core.node_ids import in_schema, places
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.history.replay.compare import churn
from stream_icd.kafka.messages.records import Processed
from stream_icd.learning.retraining.windows import Lesson
from stream_icd.methods.bp import level_graph
from stream_icd.methods.bp.level_graph import Rows
from stream_icd.methods.bp.posterior import Posterior
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import (
    METADATA,
    anew,
    decode_memory,
    enclosed,
    encode_memory,
    next_id_of,
    table_of_nodes,
)
from stream_icd.methods.memory.horizon import FILTER
from stream_icd.methods.memory.memory import (
    BEFORE_ALL,
    COUNTS,
    FAR_IDS,
    MOST_COUNTED,
    MOST_READ_IDS,
    Hypothesis,
    Memory,
)
from stream_icd.methods.memory.nodes import cut, of_nodes
from stream_icd.methods.memory.recent import _A_GRAPH, _MOST_KEPT, RecentMemories
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.streaming.detection import snapshot as detection
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import decode_communities, encode_communities
from stream_icd.wire.events import decode_events, encode_events
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.methods.memory.streams import bits_of, detected, hour, model
from tests.streaming.workers.remembered import records
from tests.testbed.drifting import remembering_model, stream
from tests.testbed.windows import follow, window

MODEL = remembering_model().model
*BEFORE, NEXT = stream("g", 4)


@cache
def memory() -> Memory:
    """The memory of a graph after some windows."""
    return detected(BEFORE, MODEL)[-1].memory


def memory_of(n_nodes: int, **values: Any) -> Memory:
    """The memory of the first nodes of a graph."""
    return replace(of_nodes(memory(), np.arange(n_nodes)), **values)


@settings(max_examples=30)
@given(
    ids=st.one_of(
        st.sets(st.integers(-(2**63), 2**63 - 1), max_size=100),
        st.sets(st.text(max_size=5), max_size=100),
    ),
    credit=st.integers(0, 9),
)
def test_a_memory_comes_back_bit_by_bit(ids: set[int] | set[str], credit: int) -> None:
    kind = pa.string() if any(isinstance(node_id, str) for node_id in ids) else pa.int64()
    memory = memory_of(len(ids), nodes=pa.array(sorted(ids), kind), credit=credit)
    value = encode_memory(memory)
    back = decode_memory(value)
    assert back.nodes.equals(memory.nodes)
    for name in ("window", "next_id", "horizon", *COUNTS):
        assert getattr(back, name) == getattr(memory, name), name
    assert [one.kind for one in back.hypotheses] == [one.kind for one in memory.hypotheses]
    assert bits_of(back) == bits_of(memory)
    assert encode_memory(back) == value


@pytest.mark.parametrize(("n_nodes", "is_known"), [(5_000, True), (300_000, False)])
def test_nodes_without_edges_take_hardly_more_than_their_ids(n_nodes: int, is_known: bool) -> None:
    nodes, seen = pa.array(range(n_nodes)), np.full(n_nodes, is_known)
    certain = Posterior.certain(np.arange(n_nodes, dtype=np.int32), mixing=0.1)
    known = certain if is_known else Posterior.uninformed(n_nodes)
    ids = np.arange(known.n_communities) + 7
    alone = Hypothesis(FILTER, Rows.without_edges(n_nodes), known.likeliest)
    memory = Memory(hour(0), nodes, seen, known, ids, n_nodes + 7, hypotheses=(alone,))
    value = encode_memory(memory)
    assert decode_memory(value).n_nodes == n_nodes
    assert decode_memory(value).community_ids.tolist() == ids.tolist()
    assert len(value) < len(write_table(pa.table({"node": nodes}))) + 10_000


def test_other_bytes_parts_of_a_memory_and_later_versions_are_refused(tmp_path: Path) -> None:
    value, communities = encode_memory(memory_of(50)), {"community": [0]}
    cut_off = [value[:end] for end in range(0, len(value) - 8, 97)]
    for wrong in (b"", b"no table", write_table(pa.table({"node": [1], **communities})), *cut_off):
        with pytest.raises(BadMemory):
            decode_memory(wrong)
    (tmp_path / "memory").write_bytes(value)
    with pytest.raises(BadMemory, match="bytes-like object is required, not 'str'"):
        decode_memory(str(tmp_path / "memory"))
    assert value.count(b'"format": 8') == 1
    with pytest.raises(BadMemory, match="upgrade"):
        decode_memory(value.replace(b'"format": 8', b'"format": 9'))


def test_the_memory_of_the_version_before_starts_the_graph_anew_with_its_ids_used_up() -> None:
    old = pa.table(
        {"node": [1, 2]}
        | {f"community_{rank}": np.array([3, -1]) for rank in range(4)}
        | {f"belief_{rank}": np.array([1, 0], np.float32) for rank in range(4)}
        | {"rival": np.array([-1, -1], np.int32)}
    )
    rest = {"format": 2, "next_id": 4, "mixing": 0.1, "stay": 0.5, "believed": True, "pull": 0.0}
    value = write_table(old.replace_schema_metadata({METADATA: json.dumps(rest).encode()}))
    with pytest.raises(BadMemory, match="format 2"):
        decode_memory(value)
    assert next_id_of(value) == 4
    memory = decode_memory(anew(value))
    assert memory.window == BEFORE_ALL
    assert memory.n_nodes == 0
    assert memory.next_id == 4


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"next_id": 3}, "community ids"),
        ({"next_id": MOST_IDS + 1}, "next_id"),
        ({"n_windows": 0}, "n_windows"),
        ({"nodes": pa.array([0, 2, 1, *range(3, 30)])}, "ascend"),
        ({"nodes": pa.array([0, 0, *range(2, 30)])}, "ascend"),
        ({"nodes": pa.array(["b", "a"] + [f"c{at}" for at in range(10, 38)])}, "ascend"),
        ({"shares": np.full((30, 4), 0.5, np.float32)}, "add up"),
        ({"communities": np.arange(120, dtype=np.int32).reshape(30, 4) % 30 // 10}, "twice"),
        ({"communities": np.full((30, 4), -2, np.int32)}, "communities"),
        ({"communities": np.full((30, 4), 1, np.int32)}, "communities"),
        ({"labels": np.full(30, 30, np.int32)}, "number of nodes"),
    ],
)
def test_values_out_of_range_are_refused(change: dict[str, Any], match: str) -> None:
    memory = memory_of(30)
    if "labels" in change:
        hypotheses = replace(memory.hypotheses[0], **change), *memory.hypotheses[1:]
        memory = replace(memory, hypotheses=hypotheses)
    elif change.keys() <= set(Posterior._fields):
        memory = replace(memory, posterior=memory.posterior._replace(**change))
    else:
        memory = replace(memory, **change)
    with pytest.raises(BadMemory, match=match):
        memory.checked()


def test_a_community_far_above_the_others_is_refused_before_there_is_a_place_for_each() -> None:
    memory = memory_of(30)
    communities = memory.posterior.communities.copy()
    communities[7, 0] = 2**31 - 1  # 16 GiB of places
    known = memory.posterior._replace(communities=communities)
    tracemalloc.start()
    try:
        with pytest.raises(BadMemory, match="communities"):
            replace(memory, posterior=known).checked()
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


EDGE = {"neighbours_0": [[1], [1], []], "weights_0": [[0x3F80], [0x3F80], []]}
"""A path of three nodes: gaps to later neighbours; weights as the upper 16 bits of a float."""


def with_columns(value: bytes, columns: dict[str, list[Any]]) -> bytes:
    table = table_of_nodes(value)
    for name, rows in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(rows, pa.list_(pa.uint16())))
    return enclosed(table, json.loads(pa.ipc.open_stream(value).schema.metadata[METADATA]))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"neighbours_0": [[2], [], []]}, "weight"),
        ({"neighbours_0": [[3], [1], []]}, "names a node"),
        ({"neighbours_0": [[0], [1], []]}, "later nodes"),
        ({"weights_0": [None, [0x3F80], []]}, "null"),
        *(
            ({"weights_0": [[bits], [0x3F80], []]}, "positive and")
            for bits in (0x7FC0, 0x7F80, 0xBF80, 0)
        ),
    ],
    ids=["fewer", "no node", "earlier", "null", "not a number", "infinite", "negative", "zero"],
)
def test_edges_that_are_none_are_refused(
    change: dict[str, list[Any]], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = encode_memory(memory_of(3))
    for bits in (1, 0x3F80, 0x7F7F):  # from the least to the most
        good = with_columns(value, {**EDGE, "weights_0": [[bits], [0x3F80], []]})
        assert decode_memory(good).n_nodes == 3
    with pytest.raises(BadMemory, match=match):
        decode_memory(with_columns(value, EDGE | change))
    monkeypatch.setattr(level_graph, "_MOST_ENTRIES", 3)
    with pytest.raises(LimitExceeded, match="too large"):
        decode_memory(with_columns(value, EDGE))


def test_the_next_id_is_known_though_the_table_is_damaged() -> None:
    value = encode_memory(memory_of(100, next_id=41))
    damaged = value[:-900] + bytes(900)
    with pytest.raises(BadMemory):
        decode_memory(damaged)
    assert next_id_of(damaged) == 41
    assert decode_memory(anew(damaged)).next_id == 41
    for lost in (b"", b"no table", encode_memory(memory_of(1, next_id=MOST_IDS))):
        assert next_id_of(lost) is None
        assert decode_memory(anew(lost)).next_id == FAR_IDS


def test_less_is_remembered_the_nodes_that_were_away_longest_go_first() -> None:
    whole, faded = memory_of(40), np.random.default_rng(0).random((40, 1), np.float32)
    posterior = whole.posterior._replace(shares=whole.posterior.shares * faded)
    memory = replace(whole, posterior=posterior)
    kept = cut(memory, 10)
    shares = memory.posterior.shares.sum(axis=1)
    weights = dict(zip(memory.nodes.to_pylist(), shares, strict=True))
    gone = set(weights) - set(kept.nodes.to_pylist())
    assert kept.n_nodes == 10
    assert max(weights[node] for node in gone) <= min(kept.posterior.shares.sum(axis=1))
    assert cut(memory, 40) is memory
    assert decode_memory(encode_memory(cut(memory, 0))).n_nodes == 0


NUMBERS: list[object] = [
    -1, 0, 2**31, 2**53, 2**63, 10**15, 0.0, -0.0, 5e-324, 1 - 2**-53, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
OTHERS: list[object] = [True, None, "x", [], {}, "present", "0001-01-01T00:00:00+23:59"]


def table() -> pa.Table:
    return table_of_nodes(encode_memory(memory()))


def paths(said: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a number, a text or a list of it stands in the metadata."""
    inner: Any = said.items() if isinstance(said, dict) else ()
    inner = enumerate(said) if isinstance(said, list) else inner
    for at, one in inner:
        yield (*path, at)
        yield from paths(one, (*path, at))


SAID = json.loads(pa.ipc.open_stream(encode_memory(memory())).schema.metadata[METADATA])


def with_said(path: tuple[Any, ...], value: object) -> bytes:
    said = deepcopy(SAID)
    within = said
    for at in path[:-1]:
        within = within[at]
    within[path[-1]] = value
    return enclosed(table(), said)


def is_whole(found: Remembered) -> bool:
    """Whether the result and the state after it can be read by those that they are sent to."""
    result = replace(
        window(0, found.communities, NEXT.nodes, ids=found.community_ids),
        replaced=found.replaced,
        horizon=found.horizon,
        predicted_bits=found.predicted_bits,
    )
    message = encode_communities(result)
    sent = decode_communities(message.key, message.value, message.headers)
    return sent.horizon is not None and decode_memory(encode_memory(found.memory)).n_nodes > 0


def ends(value: bytes) -> str:
    """How a state ends: refused, or used."""
    try:
        read = decode_memory(value)
    except BadMemory:
        return "refused"
    assert is_whole(detect_remembering(NEXT, MODEL, read))
    return "used"


@pytest.mark.parametrize("path", [*paths(SAID)], ids=lambda path: ".".join(map(str, path)))
def test_metadata_of_any_value_is_refused_or_used(path: tuple[Any, ...]) -> None:
    assert "refused" in {ends(with_said(path, value)) for value in (*NUMBERS, *OTHERS)}


def test_ids_near_the_largest_are_refused_or_continued() -> None:
    for next_id in (2**53 - 1, 2**53, 2**53 + 1, MOST_READ_IDS + 1):
        assert ends(with_said(("next_id",), next_id)) == "refused"
    ids = memory().community_ids + 10**14
    high = replace(memory(), community_ids=ids, next_id=int(ids.max()) + 1)
    found = detect_remembering(NEXT, MODEL, decode_memory(encode_memory(high)))
    assert set(found.community_ids) & set(ids)
    assert is_whole(found)


def test_counts_at_their_maximum_stay_there() -> None:
    most = replace(memory(), **(dict.fromkeys(COUNTS, MOST_COUNTED) | {"leader": 0}))
    hypotheses = [replace(one, n_vain=MOST_COUNTED, wait=MOST_COUNTED) for one in most.hypotheses]
    most = replace(most, hypotheses=tuple(hypotheses))
    found = detect_remembering(NEXT, MODEL, decode_memory(encode_memory(most)))
    assert found.memory.n_windows == MOST_COUNTED
    assert is_whole(found)


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
def test_windows_of_mixed_types_give_the_bytes_of_one(
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


def states(recent: RecentMemories) -> list[bytes | None]:
    """The encoded memory after each window, found with one relay."""
    settings = DetectSettings(memory="auto", memory_topic="memory", threads=1)
    work = replace(RecordDetection(remembering_model(), settings), recent=recent)
    relay, found = Relay(), []
    for record in records([cliques(number, pa.int64()) for number in range(6)]):
        outcome = work(record, relay)
        assert isinstance(outcome, Processed)
        found.append(outcome.state.value)
    return found


def test_what_is_kept_is_what_would_be_decoded() -> None:
    with mock.patch.object(detection, "decode_memory", side_effect=AssertionError):
        found = states(RecentMemories())  # so none is decoded
    assert found == states(RecentMemories(most_kept=0))


@pytest.mark.parametrize("room", [1.5, 2.5])
def test_the_longest_unused_are_dropped(room: float) -> None:
    encoded = encode_memory(memory())
    size = _A_GRAPH + len(encoded) + memory().n_bytes
    recent = RecentMemories(most_kept=int(room * size))
    for name in ("a", "b", "c", "c"):
        recent.put(name, encoded, memory())
    kept = [name for name in ("a", "b", "c") if recent.get(name, encoded) is memory()]
    assert kept == (["c"] if room < 2 else ["b", "c"])
    assert recent.get("c", encoded[1:]) is None


def test_graphs_without_edges_are_dropped_too_and_ids_count_with_their_bytes() -> None:
    for memory in (
        Memory.forgotten(0),
        Memory.empty(BEFORE_ALL, pa.array(["a" * 4000, "b" * 4000]), 0),
    ):
        recent = RecentMemories()
        assert (memory.n_bytes > 8000) == (memory.n_nodes > 0)
        for number in range(_MOST_KEPT // (_A_GRAPH + memory.n_bytes) + 1):
            recent.put(str(number), b"", memory)
        assert recent.get("0", b"") is None
        assert recent.get("1", b"") is memory
