"""Messages about single nodes survive the wire, and broken ones are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadKnown, BadMember, LimitExceeded
from stream_icd.wire.nodes import (
    KnownNode,
    MemberRow,
    decode_known,
    decode_member,
    encode_known,
    encode_member,
)
from tests.wire.samples import with_header

START = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
MEMBER = MemberRow("as733", 701, 4, START, START + timedelta(days=1), "as733/1", 0.97, "US")
ROW = encode_member(MEMBER, "as733/1#0")
KNOWN = encode_known(KnownNode("as733", "7018", "east"), START, "noc")
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ids = st.integers(-(2**63), 2**64 - 1) | names


@given(names, ids, st.none() | st.floats(0, 1), st.none() | st.text())
def test_what_is_written_is_read(
    graph: str, node: int | str, probability: float | None, name: str | None
) -> None:
    row = MemberRow(graph, node, 4, START, START, "g/1", probability, name)
    message = encode_member(row, "g/1@m#0")
    assert decode_member(message.key, message.value, message.headers) == row
    known = KnownNode(graph, str(node), name or "east")
    message = encode_known(known, START, "noc")
    assert decode_known(message.key, message.value, message.headers) == known


def test_times_are_of_utc() -> None:
    east = timezone(timedelta(hours=2))
    message = encode_member(MemberRow("g", 1, 0, START.astimezone(east), START, "g/1"), "g/1#0")
    assert json.loads(message.value)["since"] == "2026-01-01T12:30:00Z"


def test_a_number_is_its_text_and_no_value_takes_it_back() -> None:
    read = decode_known(KNOWN.key, b'{"community": 7, "more": []}', KNOWN.headers)
    assert read.community == "7"
    assert decode_known(KNOWN.key, None, ()) == KnownNode("as733", "7018", None)


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
    value = json.dumps(json.loads(ROW.value) | wrong).encode()
    with pytest.raises(BadMember, match=reason):
        decode_member(ROW.key, value, ROW.headers)


@pytest.mark.parametrize(
    "value",
    [b"", b"[]", b"{}", b'{"community": ""}', b'{"community": true}', b'{"community": 1.5}',
     b'"%s"' % (b"x" * (1 << 17))],
)  # fmt: skip
def test_other_values_are_no_known_community(value: bytes) -> None:
    with pytest.raises(BadKnown):
        decode_known(KNOWN.key, value, KNOWN.headers)


@pytest.mark.parametrize("key", [b"", None, b"as733", b"as733/", b"/7", b"\xff/1"])
def test_a_key_of_no_node_is_refused(key: bytes | None) -> None:
    with pytest.raises(BadMember):
        decode_member(key, ROW.value, ROW.headers)
    with pytest.raises(BadKnown):
        decode_known(key, KNOWN.value, KNOWN.headers)


def test_what_is_too_large_or_lacks_a_header_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="at most 65536"):
        decode_member(ROW.key, ROW.value + b" " * 70_000, ROW.headers)
    with pytest.raises(LimitExceeded):
        decode_known(b"g" * 2000 + b"/7", KNOWN.value, KNOWN.headers)
    for left_out, _ in KNOWN.headers[:2]:
        with pytest.raises(BadKnown, match=left_out):
            decode_known(KNOWN.key, KNOWN.value, with_header(KNOWN.headers, left_out, None))
