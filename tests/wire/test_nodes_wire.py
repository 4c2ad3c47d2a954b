"""Messages about single nodes survive the wire, and broken ones are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadKnown, BadMember, LimitExceeded
from stream_icd.core.members import MemberRow
from stream_icd.wire.nodes import decode_known, decode_member, encode_known, encode_member
from tests.wire.samples import decoded

START = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
MEMBER = MemberRow("as733", 701, 4, START, START + timedelta(days=1), "as733/1", 0.97, "US")
ROW = encode_member(MEMBER, "as733/1#0")
KNOWN = encode_known("as733", "7018", "east", START, "noc")
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ids = st.integers(-(2**63), 2**64 - 1) | names


@given(names, ids, st.none() | st.floats(0, 1), st.none() | st.text())
def test_what_is_written_is_read(
    graph: str, node: int | str, probability: float | None, name: str | None
) -> None:
    row = MemberRow(graph, node, 4, START, START, "g/1", probability, name)
    assert decoded(encode_member(row, "g/1@m#0"), decode_member) == row
    known = encode_known(graph, str(node), name or "east", START, "noc")
    assert decoded(known, decode_known) == (graph, str(node), name or "east")


def test_times_are_of_utc_numbers_are_texts_and_no_value_takes_a_community_back() -> None:
    since = START.astimezone(timezone(timedelta(hours=2)))
    message = encode_member(MemberRow("g", 1, 0, since, START, "g/1"), "g/1#0")
    assert json.loads(message.value)["since"] == "2026-01-01T12:30:00Z"
    known = decoded(KNOWN, decode_known, value=b'{"community": 7, "more": []}')
    assert known == ("as733", "7018", "7")
    assert decoded(KNOWN, decode_known, value=None, headers=()) == ("as733", "7018", None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"graph": "other"}, "no JSON object of graph 'as733'"),
        ({"node": 702}, "but the node 702"),
        ({"node": True}, "node is True; expected int"),
        ({"community_id": None}, "community_id is None; expected int"),
        ({"community_id": -1}, "is not in 0..999999999999998"),
        ({"probability": 1.5}, "expected a number from 0 to 1"),
        ({"probability": float("nan")}, "expected a number from 0 to 1"),
        ({"since": "yesterday"}, "cannot be read"),
        ({"since": "2026-01-01T00:00:00"}, "needs a time zone"),
        ({"name": 7}, "name is 7; expected str"),
    ],
)
def test_a_broken_row_says_why(wrong: dict[str, object], reason: str) -> None:
    with pytest.raises(BadMember, match=reason):
        decoded(ROW, decode_member, value=json.dumps(json.loads(ROW.value) | wrong).encode())


def test_what_breaks_the_contract_is_refused() -> None:
    no_community = (b"", b"[]", b"{}", b'{"community": ""}', b'{"community": true}')
    for value in (*no_community, b'{"community": 1.5}', b'"%s"' % (b"x" * (1 << 17))):
        with pytest.raises(BadKnown):
            decoded(KNOWN, decode_known, value=value)
    for key in (b"as733", b"as733/", b"/7", b"\xff/1"):
        with pytest.raises(BadMember):
            decoded(ROW, decode_member, key=key)
        with pytest.raises(BadKnown):
            decoded(KNOWN, decode_known, key=key)
    with pytest.raises(LimitExceeded, match="at most 65536"):
        decoded(ROW, decode_member, value=ROW.value + b" " * 70_000)
    with pytest.raises(LimitExceeded):
        decoded(KNOWN, decode_known, key=b"g" * 2000 + b"/7")
