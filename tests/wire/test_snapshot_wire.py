"""A snapshot survives the wire unchanged, and nothing that breaks the contract gets through."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.coordinates import DEGREES
from stream_icd.core.errors import Action, BadInput, BadSnapshot, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import DAY, decoded, made, with_header

TEXTS = st.text(max_size=8)
IDS = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    **dict.fromkeys([pa.string(), pa.large_string(), pa.string_view()], TEXTS),
}
LONGITUDE_LATITUDE = st.tuples(st.floats(-180, 180), st.floats(-90, 90))


def decode(message: Message, **changed: object) -> Snapshot:
    snapshot: Snapshot = decoded(message, decode_snapshot, **changed)
    return snapshot


SENT = encode_snapshot(made([1], [2], n_communities=1))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    kind = draw(st.sampled_from([*IDS]))
    nodes = draw(st.lists(IDS[kind], min_size=2, max_size=12, unique=True))
    pair = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes))
    pairs = [(nodes[0], nodes[1]), *draw(st.lists(pair, max_size=30))]
    lonely = draw(st.lists(st.sampled_from(nodes), max_size=4))
    src = pa.array([a for a, _ in pairs] + lonely, kind)
    dst = pa.array([b for _, b in pairs] + [None] * len(lonely), kind)
    weight = st.floats(1e-6, 1e6)
    weights = draw(st.none() | st.lists(weight, min_size=len(src), max_size=len(src)))
    place_of = {node: draw(st.none() | LONGITUDE_LATITUDE) for node in nodes}
    named = [place_of[node] or (None, None) for node in src.to_pylist()]
    start = draw(st.datetimes(datetime(1990, 1, 1), datetime(2009, 1, 1), timezones=st.just(UTC)))
    return snapshot_from_pairs(
        src,
        dst,
        graph=draw(st.text(min_size=1, max_size=10)),
        id=draw(st.text(min_size=1, max_size=20)),
        window=Window(start, start + draw(st.timedeltas(timedelta(0), timedelta(days=11)))),
        weights=weights,
        n_communities=draw(st.none() | st.just(1)),
        x=pa.array([x for x, _ in named], pa.float64()),
        y=pa.array([y for _, y in named], pa.float64()),
        crs=draw(st.sampled_from(["", DEGREES, "EPSG:2154"])),
    )


@given(snapshots())
def test_what_is_sent_is_what_is_read(snapshot: Snapshot) -> None:
    message = encode_snapshot(snapshot)
    assert decode(message) == snapshot
    assert encode_snapshot(decode(message)) == message


def test_pairs_given_twice_add_up_and_a_null_dst_declares_a_node_without_an_edge() -> None:
    snapshot = made([1, 2, 1, 5], [2, 1, 1, 1], weights=[1.0, 2.5, 9.0, 1.0])
    assert snapshot.edges.tolist() == [[0, 0], [1, 2]]
    assert snapshot.weights.tolist() == [3.5, 1.0]
    assert snapshot.n_self_loops == 1
    assert made([1, 2], [2, 1]).weights is None
    snapshot = decode(encode_snapshot(made(["a", "b", "z"], ["b", "a", None])))
    assert snapshot.nodes.to_pylist() == ["a", "b", "z"]
    assert snapshot.adjacency().toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_a_node_has_its_place_whichever_row_names_it_and_places_make_no_correction() -> None:
    def placed(src: list[str], dst: list[str | None], x: list[float | None]) -> Snapshot:
        ends = pa.array(src, pa.string()), pa.array(dst, pa.string())
        return made(*ends, x=pa.array(x, pa.float64()), y=pa.array(x, pa.float64()), crs=DEGREES)

    in_edges = placed(["c", "a", "a"], ["b", "b", "c"], [-0.0, 7.5, 7.5])
    declared = placed(["a", "b", "a", "c"], ["c", "c", "b", None], [7.5, None, None, 0.0])
    assert in_edges == declared
    assert encode_snapshot(in_edges) == encode_snapshot(declared)
    places = decode(encode_snapshot(declared)).coordinates
    assert places.crs == DEGREES
    np.testing.assert_array_equal(places.x, [7.5, np.nan, 0.0])
    np.testing.assert_array_equal(places.known, [True, False, True])
    nowhere = placed(["a", "a", "c"], ["b", "c", "b"], [np.nan] * 3)
    assert nowhere.coordinates is None
    assert in_edges != nowhere
    assert in_edges.content == nowhere.content


def test_longitude_and_latitude_have_bounds_and_a_plane_has_wide_ones() -> None:
    far = {"x": [181.0, 7.0], "y": [7.0, -1e15]}
    assert decode(encode_snapshot(made([1, 2], [2, 3], **far))).coordinates is not None
    with pytest.raises(BadSnapshot, match="x is 181; it must be -180 to 180"):
        made([1, 2], [2, 3], **far, crs=DEGREES)
    message = encode_snapshot(made([1, 2], [2, 3], x=[180.0, -180.0], y=[90.0, -90.0], crs=DEGREES))
    assert dict(message.headers)["icd_crs"] == b"OGC:CRS84"
    places = decode(message, headers=with_header(message.headers, "icd_crs", None)).coordinates
    assert places.crs == ""


def test_headers_are_the_cloudevents_that_other_languages_expect() -> None:
    snapshot = made([1], [2], n_communities=2, source="urn:me")
    headers = dict(encode_snapshot(snapshot).headers)
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_type": b"stream_icd.snapshot.v1",
        "ce_source": b"urn:me",
        "ce_id": b"g/1",
        "ce_time": b"1999-04-03T00:00:00Z",
        "content-type": b"application/vnd.apache.arrow.stream",
        "icd_window_start": b"1999-04-02T00:00:00Z",
        "icd_window_end": b"1999-04-03T00:00:00Z",
        "icd_k": b"2",
        "icd_content": snapshot.content.encode(),
    }
    shanghai = timezone(timedelta(hours=8))
    window = Window(datetime(2008, 2, 2, 16, tzinfo=shanghai), datetime(2008, 2, 2, 9, tzinfo=UTC))
    start = decode(encode_snapshot(made([1], [2], window=window))).window.start
    assert (start, start.tzinfo) == (datetime(2008, 2, 2, 8, tzinfo=UTC), UTC)


def test_a_table_that_another_program_wrote_plainly_is_read() -> None:
    """No compression, int32, several batches, columns the other way round."""
    table = pa.table(
        {"dst": pa.array([2, None, 3], pa.int32()), "src": pa.array([1, 9, 2], pa.int32())}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    snapshot = decode(SENT, value=bytes(sink.getvalue()))
    assert snapshot.nodes.to_pylist() == [1, 2, 3, 9]
    assert snapshot.n_edges == 2


def value(**columns: object) -> dict[str, bytes]:
    return {"value": write_table(pa.table(columns))}


def header(name: str, text: str) -> dict[str, Headers]:
    return {"headers": with_header(SENT.headers, name, text)}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"value": None}, "no value"),
        ({"value": b"src,dst\n1,2\n"}, "not an Arrow IPC stream"),
        (value(src=[1, 2], dst=pa.nulls(2, pa.int64())), "no edge"),
        (value(src=[1, 2], dst=[1, 2]), "no edge"),
        (value(src=[1.0], dst=[2.0]), "src has type double"),
        (value(src=[1], dst=["a"]), "src has type int64 and dst string"),
        (value(src=[1], dst=pa.nulls(1, pa.string())), "give both the same type"),
        (value(src=[[1]], dst=[[2]]), "src has type list"),
        (value(src=[1, None], dst=[2, 3]), "src is null in 1 rows"),
        (value(src=[1]), "expected src, dst, weight"),
        (value(src=[1], dst=[2], colour=[3.0]), "has columns src, dst, colour"),
        (value(src=[1], dst=[2], weight=[1]), "weight has type int64"),
        (value(src=[1], dst=[2], weight=[-1.0]), "weight -1.0 is not positive"),
        (value(src=[1], dst=[2], weight=pa.array([None], pa.float64())), "weight nan"),
        (value(src=[1], dst=[2], x=[1], y=[1.0]), "x has type int64"),
        (value(src=[1], dst=[2], x=[1.0]), "give both x and y"),
        (value(src=[1, 2], dst=[2, 3], x=[1.0, None], y=[None, 1.0]), "give both in a row, or"),
        (value(src=[1], dst=[2], x=[0.0], y=[-2e15]), "y is -2e\\+15; it must be"),
        (value(src=[1, 1], dst=[2, 3], x=[0.0, 0.0], y=[0.0, 1.0]), "two different places"),
        (value(src=pa.array(["a"]).dictionary_encode(), dst=["b"]), "not dictionary, columns"),
        (value(**{str(i): pa.nulls(0) for i in range(50_000)}), "the table has 50000 columns"),
        (header("icd_window_start", "yesterday"), "expected RFC 3339"),
        (header("icd_window_end", "1999-04-03T00:00:00"), "needs a time zone"),
        (header("icd_window_end", "1990-01-01T00:00:00Z"), "before it starts"),
        (header("icd_window_end", "9999-12-31T23:59:59-23:59"), "outside the years 1 to 9999"),
        (header("icd_k", "-3"), "expected a whole number above 0"),
        (header("icd_k", "3"), "3 communities of 2 nodes"),
    ],
)
def test_a_broken_message_is_a_dead_letter_that_says_why(
    changed: dict[str, object], reason: str
) -> None:
    with pytest.raises(BadSnapshot, match=reason) as caught:
        decode(SENT, **changed)
    assert caught.value.action is Action.DEAD_LETTER


def test_extensions_change_nothing_however_long() -> None:
    for name in ("ce_tracestate", "ce_dataschema"):
        extended = (*SENT.headers, (name, b"v" * 30_000), (name, b"\xff" * 2000))
        assert decode(SENT, headers=extended) == decode(SENT)
        with pytest.raises(LimitExceeded, match="the limit is 65536"):
            decode(SENT, headers=(*extended, (name, b"v" * 40_000)))


def test_a_star_of_a_million_nodes_is_in_proportion_to_its_message() -> None:
    leaves = np.arange(1, 1_000_000)
    star = made(np.zeros_like(leaves), leaves, weights=np.ones(len(leaves)))
    assert decode(encode_snapshot(star)).n_edges == len(leaves)


def test_views_that_all_show_the_same_text_are_refused_before_each_gets_a_copy() -> None:
    text = b"x" * 1_000_000
    view = np.array([len(text), int.from_bytes(text[:4]), 0, 0], np.int32)  # bytes, start, buffer 0
    shown = [None, pa.py_buffer(np.tile(view, 5000)), pa.py_buffer(text)]
    views = pa.Array.from_buffers(pa.string_view(), 5000, shown)  # 5 GB of text
    bomb = value(src=views, dst=views)
    assert len(bomb["value"]) < 10_000
    allocated = pa.total_allocated_bytes()
    with pytest.raises(LimitExceeded, match="bytes or more"):
        decode(SENT, **bomb)
    assert pa.total_allocated_bytes() <= allocated + 1_000_000


def test_a_null_among_views_may_point_anywhere() -> None:
    lonely = pa.array(["x", "y"], pa.string_view())
    view = np.array([[1, ord("z"), 0, 0], [-(1 << 30), 0, 0, 0]], np.int32)  # the length is first
    shown = [pa.py_buffer(b"\1"), pa.py_buffer(view)]  # the second one is null
    ends = {"src": lonely, "dst": pa.Array.from_buffers(pa.string_view(), 2, shown)}
    snapshot = decode(SENT, **value(**ends))
    assert (snapshot.nodes.to_pylist(), snapshot.n_edges) == (["x", "y", "z"], 1)


@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5])
def test_what_arrow_0_17_compressed_is_refused_before_it_is_unpacked(version: object) -> None:
    table = pa.table({"src": [1 << 62, 1], "dst": [2, 3]})  # the first number would be a size
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=version)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        metadata = {"ARROW:experimental_compression": "ZSTD"}
        writer.write_batch(table.to_batches()[0], custom_metadata=metadata)
    batch = bytes(sink.getvalue())
    if version == pa.ipc.MetadataVersion.V5:
        assert decode(SENT, value=batch).n_edges == 2
    else:
        with pytest.raises(BadSnapshot, match="before V5 has metadata"):
            decode(SENT, value=batch)


def test_every_truncation_ends_in_an_error_of_ours() -> None:
    message = encode_snapshot(made(list(range(50)), list(range(1, 51))))
    whole = decode(message)
    for length in range(len(message.value)):
        try:
            # Arrow lets a stream end without its end marker, so only the very tail may be cut.
            assert decode(message, value=message.value[:length]) == whole
        except BadInput:
            continue


# The hash of a snapshot's content: the same for the same graph, another for any correction.

FAR = datetime(9000, 1, 1, tzinfo=UTC)  # too far for microseconds in a float
PAIRS = [(1, 2), (2, 3), (2, 1), (3, 1), (7, 1), (1, 2)]
# Sums of these depend on the order in which they are added.
WEIGHTS = [0.1, 1e16, 0.3, 0.7, 2.0, 1.1]


def of_pairs(
    pairs: list[tuple[object, object]], weights: list[float] | None = None, **options: object
) -> Snapshot:
    src, dst = map(list, zip(*pairs, strict=True))
    return made(src, dst, weights=weights, **options)


@given(
    st.permutations(range(6)),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.booleans(),
    st.sampled_from([int, str]),
)
def test_order_and_direction_of_rows_do_not_matter(
    order: list[int], turned: list[bool], weighted: bool, kind: type
) -> None:
    pairs = [(kind(a), kind(b)) for a, b in PAIRS]
    shuffled = [pairs[i][::-1] if turned[i] else pairs[i] for i in order]
    snapshot = of_pairs(pairs, WEIGHTS if weighted else None)
    other = of_pairs(shuffled, [WEIGHTS[i] for i in order] if weighted else None)
    assert snapshot.content == other.content
    assert encode_snapshot(snapshot) == encode_snapshot(other)


UNSIGNED = (pa.array([2**64 - 2], pa.uint64()), pa.array([2**64 - 1], pa.uint64()))
CORRECTIONS = [
    of_pairs([*PAIRS, (7, 2)]),
    of_pairs([*PAIRS, (9, None)]),
    of_pairs([(1, 2), (2, 3), (3, 1), (8, 1)]),
    of_pairs(PAIRS, WEIGHTS),
    of_pairs(PAIRS, [1.0] * 6),
    of_pairs([(str(a), str(b)) for a, b in PAIRS]),
    of_pairs(PAIRS, n_communities=2),
    of_pairs(PAIRS, window=Window(DAY.start, DAY.end + timedelta(microseconds=1))),
    of_pairs(PAIRS, window=Window(DAY.start, FAR + timedelta(microseconds=1))),
    of_pairs(PAIRS, window=Window(DAY.start, FAR + timedelta(microseconds=2))),
    of_pairs([("a", "bc")]),
    of_pairs([("ab", "c")]),  # the same letters
    of_pairs([(-2, -1)]),
    made(*UNSIGNED),  # the same bits
]


def test_each_correction_has_a_content_of_its_own_and_a_new_name_is_none() -> None:
    snapshot = of_pairs(PAIRS)
    contents = {snapshot.content, *(corrected.content for corrected in CORRECTIONS)}
    assert len(contents) == 1 + len(CORRECTIONS)
    renamed = replace(snapshot, graph="other", id="other/1", source="urn:other")
    assert renamed.content == snapshot.content


def test_neither_the_width_of_integers_nor_the_kind_of_texts_matters() -> None:
    after = pa.array([1, 2, 0])
    for kind in (pa.int8(), pa.uint64()):
        ids = pa.array([1, 2, 3], kind)
        snapshot = made(ids, ids.take(after))
        assert snapshot.content == of_pairs([(1, 2), (2, 3), (3, 1)]).content
    long = pa.array(["x", "b", "é", "a"], pa.large_utf8()).slice(1)
    snapshot = made(long, long.take(after))
    assert snapshot.content == of_pairs([("b", "é"), ("é", "a"), ("a", "b")]).content


def test_it_is_the_hash_that_the_contract_describes() -> None:
    """Written from docs/wire.md, with nothing of ours."""
    head = b"window 922147200000000 922147200500000\nk 2\nnodes 3 utf8\nedges 2 weighted\n"
    ids = struct.pack("<3q", 1, 1, 2) + "azé".encode()
    edges = struct.pack("<4q", 0, 0, 1, 2)
    weights = struct.pack("<2d", 2.0, 1.5)
    start = datetime(1999, 3, 23, tzinfo=UTC)
    window = Window(start, start + timedelta(seconds=0.5))
    snapshot = of_pairs([("z", "a"), ("é", "a")], [2.0, 1.5], window=window, n_communities=2)
    assert snapshot.content == hashlib.sha256(head + ids + edges + weights).hexdigest()
    prose = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    assert "edges M plain" in prose


def test_it_goes_with_the_message_and_a_window_is_of_two_datetimes() -> None:
    start = pandas.Timestamp("1999-04-02T00:00:00.123456789Z")  # in nanoseconds
    snapshot = of_pairs(PAIRS, WEIGHTS, window=Window(start, start + pandas.Timedelta(days=1)))
    message = encode_snapshot(snapshot)
    assert dict(message.headers)["icd_content"].decode() == snapshot.content
    for headers in (message.headers, with_header(message.headers, "icd_content", None)):
        assert decode(message, headers=headers) == snapshot
    assert type(snapshot.window.start) is datetime
    for time in ("1999-04-02", DAY.start.date()):
        with pytest.raises(BadSnapshot, match="start .*1999.* is no datetime"):
            Window(time, DAY.end)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"graph": 733}, "name of the graph is 733: give a text"),
        ({"id": 1}, "a text as its id, not 1"),
        ({"source": ""}, "a text as its source, not ''"),
        ({"n_communities": 2.0}, "asks for 2.0 communities of 2 nodes; K must be a whole number"),
        ({"n_communities": True}, "asks for True communities"),
        ({"id": "a\ud800"}, "id .* is not UTF-8 text"),
        ({"source": "\ud800"}, "source .* is not UTF-8 text"),
        ({"x": [0.0], "y": [0.0], "crs": "\ud800"}, "crs .* is not UTF-8 text"),
        ({"x": [0.0], "y": [0.0], "crs": 4326}, "a text as its crs, not 4326"),
        ({"window": (DAY.start, DAY.end)}, "the window is .*; give Window"),
        ({"pairs": [(1 << 63, 1)]}, r"src has an integer outside .* pyarrow.uint64\(\)"),
        ({"weights": [10**400]}, "weight is not a column of numbers: int too large"),
        ({"weights": [np.datetime64("1999-04-02")]}, "not a column of numbers: it has type"),
    ],
)
def test_what_no_message_can_hold_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadSnapshot, match=reason):
        of_pairs(**({"pairs": PAIRS[:1]} | wrong))
