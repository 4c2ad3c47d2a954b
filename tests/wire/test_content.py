"""The hash of a snapshot's content: the same for the same graph, another for any correction."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadSnapshot
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import DAY

FAR = datetime(9000, 1, 1, tzinfo=UTC)  # too far for microseconds in a float
PAIRS = [(1, 2), (2, 3), (2, 1), (3, 1), (7, 1), (1, 2)]
# Sums of these depend on the order in which they are added.
WEIGHTS = [0.1, 1e16, 0.3, 0.7, 2.0, 1.1]


def made(
    pairs: list[tuple[object, object]], weights: list[float] | None = None, **changed: object
) -> Snapshot:
    src, dst = map(list, zip(*pairs, strict=True))
    named = {"graph": "g", "id": "g/1", "window": DAY}
    return snapshot_from_pairs(src, dst, weights=weights, **(named | changed))  # type: ignore[arg-type]


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
    snapshot = made(pairs, WEIGHTS if weighted else None)
    other = made(shuffled, [WEIGHTS[i] for i in order] if weighted else None)
    assert snapshot.content == other.content
    assert encode_snapshot(snapshot) == encode_snapshot(other)


CORRECTIONS = {
    "an edge more": made([*PAIRS, (7, 2)]),
    "a node more": made([*PAIRS, (9, None)]),
    "another node": made([(1, 2), (2, 3), (3, 1), (8, 1)]),
    "weights": made(PAIRS, WEIGHTS),
    "other weights": made(PAIRS, [1.0] * 6),
    "words, not numbers": made([(str(a), str(b)) for a, b in PAIRS]),
    "K": made(PAIRS, n_communities=2),
    "another window": made(PAIRS, window=Window(DAY.start, DAY.end + timedelta(microseconds=1))),
    **{
        f"a later window, {us}": made(PAIRS, window=Window(DAY.start, FAR + timedelta(0, 0, us)))
        for us in (1, 2)
    },
    "words": made([("a", "bc")]),
    "words cut elsewhere": made([("ab", "c")]),
}


def test_each_correction_has_a_content_of_its_own_and_a_new_name_is_none() -> None:
    snapshot = made(PAIRS)
    contents = {snapshot.content, *(one.content for one in CORRECTIONS.values())}
    assert len(contents) == 1 + len(CORRECTIONS)
    renamed = replace(snapshot, graph="other", id="other/1", source="urn:other")
    assert renamed.content == snapshot.content
    unsigned = [pa.array([2**64 - at], pa.uint64()) for at in (2, 1)]
    large = snapshot_from_pairs(*unsigned, graph="g", id="g/1", window=DAY)
    assert large.content != made([(-2, -1)]).content


def test_neither_the_width_of_integers_nor_the_kind_of_texts_matters() -> None:
    named: Any = {"graph": "g", "id": "g/1", "window": DAY}
    for kind in (pa.int8(), pa.uint64()):
        ids = pa.array([1, 2, 3], kind)
        snapshot = snapshot_from_pairs(ids, ids.take(pa.array([1, 2, 0])), **named)
        assert snapshot.content == made([(1, 2), (2, 3), (3, 1)]).content
    long = pa.array(["x", "b", "é", "a"], pa.large_utf8()).slice(1)
    snapshot = snapshot_from_pairs(long, long.take(pa.array([1, 2, 0])), **named)
    assert snapshot.content == made([("b", "é"), ("é", "a"), ("a", "b")]).content


def test_it_is_the_hash_that_the_contract_describes() -> None:
    """Written from docs/wire.md, with nothing of ours."""
    head = (
        b"window 922147200000000 922147200500000\n"
        b"k 2\n"
        b"nodes 3 utf8\n"
        b"edges 2 weighted\n"
    )  # fmt: skip
    ids = struct.pack("<3q", 1, 1, 2) + "azé".encode()
    edges = struct.pack("<4q", 0, 0, 1, 2)
    weights = struct.pack("<2d", 2.0, 1.5)
    start = datetime(1999, 3, 23, tzinfo=UTC)
    window = Window(start, start + timedelta(seconds=0.5))
    snapshot = made([("z", "a"), ("é", "a")], [2.0, 1.5], window=window, n_communities=2)
    assert snapshot.content == hashlib.sha256(head + ids + edges + weights).hexdigest()
    prose = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    assert "edges M plain" in prose


def test_it_goes_with_the_message_and_is_the_same_where_it_is_read() -> None:
    start = pandas.Timestamp("1999-04-02T00:00:00.123456789Z")  # in nanoseconds
    for window in (DAY, Window(start, start + pandas.Timedelta(days=1))):
        snapshot = made(PAIRS, WEIGHTS, window=window)
        message = encode_snapshot(snapshot)
        assert dict(message.headers)["icd_content"].decode() == snapshot.content
        without = tuple(header for header in message.headers if header[0] != "icd_content")
        for headers in (message.headers, without):
            assert decode_snapshot(message.key, message.value, headers) == snapshot
    assert type(snapshot.window.start) is datetime


NOT_TO_HOLD: list[tuple[dict[str, object], str]] = [
    ({"graph": 733}, "name of the graph is 733: give a text"),
    ({"id": 1}, "a text as its id, not 1"),
    ({"source": ""}, "a text as its source, not ''"),
    ({"n_communities": 2.0}, "asks for 2.0 communities of 4 nodes; K must be a whole number"),
    ({"n_communities": "2"}, "asks for '2' communities"),
    ({"n_communities": True}, "asks for True communities"),
    ({"id": "a\ud800"}, "id .* is not UTF-8 text"),
    ({"source": "\ud800"}, "source .* is not UTF-8 text"),
    ({"x": [0.0], "y": [0.0], "crs": "\ud800"}, "crs .* is not UTF-8 text"),
    ({"x": [0.0], "y": [0.0], "crs": 4326}, "a text as its crs, not 4326"),
    ({"window": (DAY.start, DAY.end)}, "the window is .*; give Window"),
]


def test_what_no_message_can_hold_is_refused() -> None:
    for wrong, said in NOT_TO_HOLD:
        with pytest.raises(BadSnapshot, match=said):
            made(PAIRS[:1] if "x" in wrong else PAIRS, **wrong)


def test_numbers_and_times_of_other_types_are_refused() -> None:
    with pytest.raises(BadSnapshot, match="weight is not a column of numbers: int too large"):
        made(PAIRS[:1], [10**400])
    for number in (np.datetime64("1999-04-02"), np.complex128(1j)):
        with pytest.raises(BadSnapshot, match="weight is not a column of numbers: it has type"):
            made(PAIRS[:1], [number])
    with pytest.raises(BadSnapshot, match=r"src has an integer outside .* pyarrow.uint64\(\)"):
        made([(1 << 63, 1)])
    for time in ("1999-04-02", DAY.start.date()):
        with pytest.raises(BadSnapshot, match="start .*1999.* is no datetime"):
            Window(time, DAY.end)  # type: ignore[arg-type]
