"""Memories, announcements and messages about nodes survive the wire, and broken ones are named."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.errors import (
    BadAnnouncement,
    BadKnown,
    BadMember,
    BadMemory,
    LimitExceeded,
)
from stream_icd.core.lineage import Figure, Gate
from stream_icd.wire.announcements import Announcement, decode_announcement, encode_announcement
from stream_icd.wire.nodes import (
    MemberRow,
    decode_known,
    decode_member,
    encode_known,
    encode_member,
)
from stream_icd.wire.states import decode_state, encode_state, read_state_key
from tests.wire.samples import ANNOUNCEMENT, EVERY_MESSAGE, STATE, decoded, with_header

NOON = datetime(2026, 1, 1, 12, 30, 0, 5, tzinfo=UTC)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=16)


@given(names, names, names, names, st.binary(min_size=1), st.booleans())
def test_a_state_is_read_as_it_was_written_under_a_key_of_its_graph_and_group(
    group: str, graph: str, other_group: str, other_graph: str, value: bytes, is_first: bool
) -> None:
    sent = replace(STATE, group=group, graph=graph, value=value, is_first=is_first)
    message = encode_state(sent)
    assert decoded(message, decode_state) == sent
    assert message == encode_state(sent)
    assert encode_state(sent, by_graph=True).key == graph.encode()
    assert read_state_key(message.key) == (group, graph)
    other = encode_state(replace(STATE, group=other_group, graph=other_graph))
    assert (message.key == other.key) == ((group, graph) == (other_group, other_graph))


@given(st.one_of(st.none(), st.binary(max_size=60)))
def test_other_keys_are_refused(key: bytes | None) -> None:
    try:
        group, graph = read_state_key(key)
    except (BadMemory, LimitExceeded):
        return
    assert group is not None
    assert graph


def test_what_a_state_lacks_or_has_too_much_of_is_named() -> None:
    for graph, reason in (("g" * 2000, "2000 bytes; the limit"), ("g" * 201, "the limit is 200")):
        with pytest.raises(LimitExceeded, match=reason):
            read_state_key(encode_state(replace(STATE, graph=graph)).key)
    message = encode_state(STATE)
    headers = with_header(message.headers, "icd_model", None)
    with pytest.raises(BadMemory, match="icd_model is missing"):
        decoded(message, decode_state, headers=headers)
    for value in (None, b""):
        with pytest.raises(BadMemory, match="has no value"):
            decoded(message, decode_state, value=value)


KINDS = get_args(get_type_hints(Announcement)["kind"])
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FIGURES = st.builds(Figure, st.text(), FINITE, FINITE, st.none() | FINITE, st.none() | FINITE)
GATES = st.builds(
    Gate,
    start=st.just(NOON),
    end=st.just(NOON + timedelta(days=1)),
    windows=st.integers(0, 1000),
    figures=st.lists(FIGURES, max_size=3).map(tuple),
)
ANNOUNCEMENTS = st.builds(
    Announcement,
    registry=st.text(min_size=1, max_size=50),
    at=st.just(NOON),
    version=st.none() | st.text(max_size=20),
    champion=st.none() | st.text(max_size=20),
    generation=st.integers(0, 10**6),
    gate=st.none() | GATES,
)


@settings(max_examples=25)
@given(ANNOUNCEMENTS)
def test_what_is_announced_is_what_is_read(announcement: Announcement) -> None:
    assert decoded(encode_announcement(announcement), decode_announcement) == announcement


def test_two_announcements_of_one_event_have_one_id() -> None:
    later = ANNOUNCEMENT.at + timedelta(hours=1)
    assert replace(ANNOUNCEMENT, at=later, reason="sent again").id == ANNOUNCEMENT.id
    assert replace(ANNOUNCEMENT, generation=8).id != ANNOUNCEMENT.id
    kept = replace(ANNOUNCEMENT, kind="kept")
    assert replace(kept, at=later).id != kept.id
    of_kinds = {replace(ANNOUNCEMENT, kind=kind).id for kind in KINDS}
    assert len(of_kinds) == len(KINDS) - 1  # promoted and rolled back: one generation


def test_later_fields_are_ignored_and_other_announcements_refused() -> None:
    message = EVERY_MESSAGE["announcement"][0]
    value = message.value.replace(b'{"kind"', b'{"colour": "red", "kind"')
    assert decoded(message, decode_announcement, value=value) == ANNOUNCEMENT
    broken = (None, b"", b"[]", b"{}", b"{", b"\xff", b'{"kind": "sold"}', b"[" * 100_000)
    for other in broken:
        with pytest.raises(BadAnnouncement):
            decoded(message, decode_announcement, value=other)
    with pytest.raises(LimitExceeded, match="at most 1 MiB"):
        decoded(message, decode_announcement, value=bytes(2**20 + 1))


ids = st.integers(-(2**63), 2**64 - 1) | names
KNOWN, ROW = EVERY_MESSAGE["known"][0], EVERY_MESSAGE["member"][0]


@given(names, ids, st.none() | st.floats(0, 1), st.none() | st.text())
def test_what_is_written_is_read(
    graph: str, node: int | str, probability: float | None, name: str | None
) -> None:
    row = MemberRow(graph, node, 4, NOON, NOON, "g/1", probability, name)
    assert decoded(encode_member(row, "g/1@m#0"), decode_member) == row
    known = encode_known(graph, str(node), name or "east", NOON, "noc")
    assert decoded(known, decode_known) == (graph, str(node), name or "east")


def test_times_are_of_utc_numbers_are_texts_and_no_value_takes_a_community_back() -> None:
    since = NOON.astimezone(timezone(timedelta(hours=2)))
    message = encode_member(MemberRow("g", 1, 0, since, NOON, "g/1"), "g/1#0")
    assert json.loads(message.value)["since"] == "2026-01-01T12:30:00.000005Z"
    known = decoded(KNOWN, decode_known, value=b'{"community": 7, "more": []}')
    assert known == ("a/b", "7018", "7")
    assert decoded(KNOWN, decode_known, value=None, headers=()) == ("a/b", "7018", None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"graph": "other"}, "no JSON object of graph 'a/b'"),
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
