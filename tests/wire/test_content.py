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
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.wire.samples import DAY, decoded, made, with_header

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
    snapshot = of_pairs([("z", "a"), ("é", "a")], [2.0, 1.5], window=window, n_communities=2)
    assert snapshot.content == hashlib.sha256(head + ids + edges + weights).hexdigest()
    prose = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    assert "edges M plain" in prose


def test_it_goes_with_the_message_and_is_the_same_where_it_is_read() -> None:
    start = pandas.Timestamp("1999-04-02T00:00:00.123456789Z")  # in nanoseconds
    for window in (DAY, Window(start, start + pandas.Timedelta(days=1))):
        snapshot = of_pairs(PAIRS, WEIGHTS, window=window)
        message = encode_snapshot(snapshot)
        assert dict(message.headers)["icd_content"].decode() == snapshot.content
        for headers in (message.headers, with_header(message.headers, "icd_content", None)):
            assert decoded(message, decode_snapshot, headers=headers) == snapshot
    assert type(snapshot.window.start) is datetime


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"graph": 733}, "name of the graph is 733: give a text"),
        ({"id": 1}, "a text as its id, not 1"),
        ({"source": ""}, "a text as its source, not ''"),
        ({"n_communities": 2.0}, "asks for 2.0 communities of 2 nodes; K must be a whole number"),
        ({"n_communities": "2"}, "asks for '2' communities"),
        ({"n_communities": True}, "asks for True communities"),
        ({"id": "a\ud800"}, "id .* is not UTF-8 text"),
        ({"source": "\ud800"}, "source .* is not UTF-8 text"),
        ({"x": [0.0], "y": [0.0], "crs": "\ud800"}, "crs .* is not UTF-8 text"),
        ({"x": [0.0], "y": [0.0], "crs": 4326}, "a text as its crs, not 4326"),
        ({"window": (DAY.start, DAY.end)}, "the window is .*; give Window"),
        ({"pairs": [(1 << 63, 1)]}, r"src has an integer outside .* pyarrow.uint64\(\)"),
        ({"weights": [10**400]}, "weight is not a column of numbers: int too large"),
        ({"weights": [np.datetime64("1999-04-02")]}, "not a column of numbers: it has type"),
        ({"weights": [np.complex128(1j)]}, "not a column of numbers: it has type"),
    ],
)
def test_what_no_message_can_hold_is_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadSnapshot, match=reason):
        of_pairs(**({"pairs": PAIRS[:1]} | wrong))


def test_a_window_is_of_two_datetimes() -> None:
    for time in ("1999-04-02", DAY.start.date()):
        with pytest.raises(BadSnapshot, match="start .*1999.* is no datetime"):
            Window(time, DAY.end)  # type: ignore[arg-type]
