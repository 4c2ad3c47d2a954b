"""Announcements arrive as they were made; other messages are refused by name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.errors import BadAnnouncement, LimitExceeded
from stream_icd.core.lineage import Figure, Gate
from stream_icd.wire.announcements import Announcement, decode_announcement, encode_announcement
from tests.wire.samples import with_header

KINDS = get_args(get_type_hints(Announcement)["kind"])
NOW = datetime(2026, 1, 31, 12, 30, 0, 5, tzinfo=UTC)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FIGURES = st.builds(Figure, st.text(), FINITE, FINITE, st.none() | FINITE, st.none() | FINITE)
GATES = st.builds(
    Gate,
    champion=st.text(),
    challenger=st.text(),
    start=st.just(NOW),
    end=st.just(NOW + timedelta(days=1)),
    windows=st.integers(0, 1000),
    passed=st.booleans(),
    reason=st.text(),
    figures=st.lists(FIGURES, max_size=3).map(tuple),
)
ANNOUNCEMENTS = st.builds(
    Announcement,
    kind=st.sampled_from(KINDS),
    registry=st.text(min_size=1, max_size=50),
    reason=st.text(),
    by=st.text(),
    at=st.just(NOW),
    version=st.none() | st.text(max_size=20),
    champion=st.none() | st.text(max_size=20),
    generation=st.integers(0, 10**6),
    gate=st.none() | GATES,
)
PLAIN = Announcement("kept", "s3://bucket/models", "no drift", "retrain", NOW)


@settings(max_examples=25)
@given(ANNOUNCEMENTS)
def test_what_is_announced_is_what_is_read(announcement: Announcement) -> None:
    message = encode_announcement(announcement)
    assert decode_announcement(message.key, message.value, message.headers) == announcement


def test_two_announcements_of_one_event_have_one_id() -> None:
    promoted = replace(PLAIN, kind="promoted", version="a@1", champion="a@1", generation=7)
    again = replace(promoted, at=NOW + timedelta(hours=1), reason="sent again")
    assert promoted.id == again.id
    assert promoted.id != replace(promoted, generation=8).id
    assert PLAIN.id != replace(PLAIN, at=NOW + timedelta(hours=1)).id
    others = {replace(promoted, kind=kind).id for kind in KINDS}
    assert len(others) == len(KINDS) - 1  # promoted and rolled back: one generation


@pytest.mark.parametrize(
    "value", [None, b"", b"[]", b"{}", b"{", b"\xff", b'{"kind": "sold"}', b"[" * 100_000]
)
def test_other_values_are_refused(value: bytes | None) -> None:
    message = encode_announcement(PLAIN)
    with pytest.raises(BadAnnouncement):
        decode_announcement(message.key, value, message.headers)


def test_fields_of_a_later_version_are_ignored_and_missing_headers_named() -> None:
    message = encode_announcement(PLAIN)
    value = message.value.replace(b'{"kind"', b'{"colour": "red", "kind"')
    assert decode_announcement(message.key, value, message.headers) == PLAIN
    for left_out in ("ce_type", "content-type", "ce_specversion"):
        headers = with_header(message.headers, left_out, None)
        with pytest.raises(BadAnnouncement, match=left_out):
            decode_announcement(message.key, message.value, headers)
    with pytest.raises(LimitExceeded, match="at most 1 MiB"):
        decode_announcement(message.key, bytes(2**20 + 1), message.headers)
