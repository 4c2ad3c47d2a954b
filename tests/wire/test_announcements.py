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
from tests.wire.samples import decoded

KINDS = get_args(get_type_hints(Announcement)["kind"])
NOW = datetime(2026, 1, 31, 12, 30, 0, 5, tzinfo=UTC)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FIGURES = st.builds(Figure, st.text(), FINITE, FINITE, st.none() | FINITE, st.none() | FINITE)
GATES = st.builds(
    Gate,
    start=st.just(NOW),
    end=st.just(NOW + timedelta(days=1)),
    windows=st.integers(0, 1000),
    figures=st.lists(FIGURES, max_size=3).map(tuple),
)
ANNOUNCEMENTS = st.builds(
    Announcement,
    registry=st.text(min_size=1, max_size=50),
    at=st.just(NOW),
    version=st.none() | st.text(max_size=20),
    champion=st.none() | st.text(max_size=20),
    generation=st.integers(0, 10**6),
    gate=st.none() | GATES,
)
PLAIN = Announcement("kept", "s3://bucket/models", "no drift", "retrain", NOW)
MESSAGE = encode_announcement(PLAIN)


@settings(max_examples=25)
@given(ANNOUNCEMENTS)
def test_what_is_announced_is_what_is_read(announcement: Announcement) -> None:
    assert decoded(encode_announcement(announcement), decode_announcement) == announcement


def test_two_announcements_of_one_event_have_one_id() -> None:
    promoted = replace(PLAIN, kind="promoted", version="a@1", champion="a@1", generation=7)
    again = replace(promoted, at=NOW + timedelta(hours=1), reason="sent again")
    assert promoted.id == again.id
    assert promoted.id != replace(promoted, generation=8).id
    assert PLAIN.id != replace(PLAIN, at=NOW + timedelta(hours=1)).id
    of_kinds = {replace(promoted, kind=kind).id for kind in KINDS}
    assert len(of_kinds) == len(KINDS) - 1  # promoted and rolled back: one generation


def test_later_fields_are_ignored_and_other_messages_refused() -> None:
    value = MESSAGE.value.replace(b'{"kind"', b'{"colour": "red", "kind"')
    assert decoded(MESSAGE, decode_announcement, value=value) == PLAIN
    broken = (None, b"", b"[]", b"{}", b"{", b"\xff", b'{"kind": "sold"}', b"[" * 100_000)
    for other in broken:
        with pytest.raises(BadAnnouncement):
            decoded(MESSAGE, decode_announcement, value=other)
    with pytest.raises(LimitExceeded, match="at most 1 MiB"):
        decoded(MESSAGE, decode_announcement, value=bytes(2**20 + 1))
