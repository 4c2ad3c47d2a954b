"""A snapshot survives the wire unchanged, and nothing that breaks the contract gets through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
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
from tests.wire.samples import decoded, made, with_header

INTEGER_TYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(),
    pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
]  # fmt: skip
LONGITUDE_LATITUDE = st.tuples(st.floats(-180, 180), st.floats(-90, 90))
STRING_TYPES = [pa.string(), pa.large_string(), pa.string_view()]


def decode(message: Message, **changed: object) -> Snapshot:
    snapshot: Snapshot = decoded(message, decode_snapshot, **changed)
    return snapshot


SENT = encode_snapshot(made([1], [2], n_communities=1))


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    kind = draw(st.sampled_from(INTEGER_TYPES + STRING_TYPES))
    if kind in STRING_TYPES:
        ids = st.text(max_size=8)
    else:
        bits, signed = kind.bit_width, not str(kind).startswith("u")
        ids = st.integers(-(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed) - 1)
    nodes = draw(st.lists(ids, min_size=2, max_size=12, unique=True))
    pair = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes))
    pairs = [(nodes[0], nodes[1]), *draw(st.lists(pair, max_size=30))]
    lonely = draw(st.lists(st.sampled_from(nodes), max_size=4))
    src = pa.array([a for a, _ in pairs] + lonely, kind)
    dst = pa.array([b for _, b in pairs] + [None] * len(lonely), kind)
    weight = st.floats(1e-6, 1e6)
    weights = draw(st.none() | st.lists(weight, min_size=len(src), max_size=len(src)))
    places = draw(
        st.lists(st.none() | LONGITUDE_LATITUDE, min_size=len(nodes), max_size=len(nodes))
    )
    place_of = dict(zip(nodes, places, strict=True))
    named = [place_of[node] or (None, None) for node in src.to_pylist()]
    minutes = draw(st.integers(0, 10**7))
    start = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    return snapshot_from_pairs(
        src,
        dst,
        graph=draw(st.text(min_size=1, max_size=10)),
        id=draw(st.text(min_size=1, max_size=20)),
        window=Window(start, start + timedelta(microseconds=draw(st.integers(0, 10**12)))),
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
    assert snapshot.weights is not None
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
    assert places is not None
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
    for headers, crs in (
        (message.headers, DEGREES),
        (with_header(message.headers, "icd_crs", None), ""),
    ):
        places = decode(message, headers=headers).coordinates
        assert places is not None
        assert places.crs == crs


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
        (value(src=[1], dst=pa.nulls(1, pa.list_(pa.int64()))), "give both the same type"),
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
