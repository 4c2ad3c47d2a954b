"""Rows of members survive the wire, and broken ones are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadMember, LimitExceeded
from stream_icd.core.members import MemberRow
from stream_icd.wire.members import decode_member, encode_member
from stream_icd.wire.message import node_key

START = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
ROW = MemberRow("as733", 701, 4, START, START + timedelta(days=1), "as733/1", 0.97, "US")
ids = st.integers(-(2**63), 2**64 - 1) | st.text(min_size=1, max_size=20)


@given(st.text(min_size=1, max_size=20), ids, st.none() | st.floats(0, 1), st.none() | st.text())
def test_a_row_is_read_as_it_was_written(
    graph: str, node: int | str, probability: float | None, name: str | None
) -> None:
    row = MemberRow(graph, node, 4, START, START, "g/1", probability, name)
    message = encode_member(row, "g/1@m#0")
    assert decode_member(message.key, message.value, message.headers) == row


def test_times_are_of_utc() -> None:
    east = timezone(timedelta(hours=2))
    message = encode_member(MemberRow("g", 1, 0, START.astimezone(east), START, "g/1"), "g/1#0")
    assert json.loads(message.value)["since"] == "2026-01-01T12:30:00Z"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "another graph": ({"graph": "other"}, "no JSON object of graph 'as733'"),
    "another node": ({"node": 702}, "but the node 702"),
    "a node of truth": ({"node": True}, "node is True; expected int"),
    "no community": ({"community_id": None}, "community_id is None; expected int"),
    "below 0": ({"community_id": -1}, "is not in 0..999999999999998"),
    "too probable": ({"probability": 1.5}, "expected a number from 0 to 1"),
    "not a number": ({"probability": float("nan")}, "expected a number from 0 to 1"),
    "no time": ({"since": "yesterday"}, "cannot be read"),
    "no zone": ({"since": "2026-01-01T00:00:00"}, "needs a time zone"),
    "a name of numbers": ({"name": 7}, "name is 7; expected str"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_row_says_why(name: str) -> None:
    wrong, reason = BAD[name]
    message = encode_member(ROW, "as733/1#0")
    value = json.dumps(json.loads(message.value) | wrong).encode()
    with pytest.raises(BadMember, match=reason):
        decode_member(message.key, value, message.headers)


@pytest.mark.parametrize("key", [b"", None, b"as733", b"as733/", b"\xff/1"])
def test_a_key_of_no_node_is_refused(key: bytes | None) -> None:
    message = encode_member(ROW, "as733/1#0")
    with pytest.raises(BadMember):
        decode_member(key, message.value, message.headers)


def test_a_large_row_is_refused() -> None:
    message = encode_member(ROW, "as733/1#0")
    with pytest.raises(LimitExceeded, match="at most 65536"):
        decode_member(node_key("as733", 701), message.value + b" " * 70_000, message.headers)
