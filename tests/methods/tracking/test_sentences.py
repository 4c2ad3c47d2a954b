"""Events in words: what a person understands, and one event where there is one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stream_icd.core.events import CommunityEvent
from stream_icd.methods.tracking.sentences import certainty, sentence, without_consequences
from stream_icd.methods.tracking.sentences import told as at

NAMES = {3: "DE, GB, IT · 3", 17: "GB · 17"}
SPLIT = CommunityEvent("split", 3, 0, 28, 34, children=(3, 17), bits=16.4)
BIRTH = CommunityEvent("born", 17, 1, 6, 0, parents=(3,), bits=16.4)
OTHER = CommunityEvent("born", 18, 2, 5, 0)


def told(event: CommunityEvent) -> str:
    sizes = {17: 6, 4: 1}
    before, now = (sizes, {}) if event.kind == "merged" else ({}, sizes)
    return sentence(event, lambda one: NAMES.get(one, f"community {one}"), before, now)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (SPLIT, "GB · 17 (6 nodes) left DE, GB, IT · 3"),
        (CommunityEvent("split", 3, None, 0, 34, children=(4, 17)),
         "DE, GB, IT · 3 fell apart into community 4 (1 node) and GB · 17 (6 nodes)"),
        (CommunityEvent("merged", 3, 0, 34, 28, parents=(3, 17)),
         "GB · 17 (6 nodes) joined DE, GB, IT · 3"),
        (CommunityEvent("merged", 5, 0, 9, 0, parents=(1, 2)),
         "community 1 and community 2 became community 5"),
        (OTHER, "community 18 is new, with 5 nodes"),
        (CommunityEvent("returned", 17, 0, 6, 7, away=2), "GB · 17 is back, with 6 nodes"),
        (CommunityEvent("died", 17, None, 0, 6), "GB · 17 ended; it had 6 nodes"),
        (CommunityEvent("shrunk", 17, 0, 4, 6), "GB · 17 shrank from 6 to 4 nodes"),
        (CommunityEvent("continued", 17, 0, 1, 1), "GB · 17 continues, with 1 node"),
    ],
)  # fmt: skip
def test_an_event_is_a_sentence(event: CommunityEvent, said: str) -> None:
    assert told(event) == said


def test_it_is_said_how_strong_an_event_is_and_how_long_it_lasted() -> None:
    month, nothing = timedelta(days=31), timedelta()
    assert certainty(SPLIT, month, undone=False) == "16 bits; still apart 31 days later"
    assert certainty(SPLIT, month, undone=True) == "16 bits; undone after 31 days"
    assert certainty(OTHER, nothing, undone=False) == ""
    assert certainty(OTHER, nothing, undone=True) == "gone in the next window"
    assert certainty(OTHER, month, undone=True) == "there for 31 days"


def test_a_split_and_the_birth_that_it_causes_are_one_event() -> None:
    assert without_consequences([SPLIT, BIRTH, OTHER]) == [SPLIT, OTHER]
    merged = CommunityEvent("merged", 17, 0, 9, 0, parents=(1, 2))
    assert without_consequences([BIRTH, merged]) == [merged]


def test_windows_of_seconds_are_told_apart() -> None:
    day, parts = datetime(2020, 1, 1, tzinfo=UTC), ({"hours": 1}, {"seconds": 30}, {"seconds": 0.5})
    times = [at(day + timedelta(**part)) for part in parts]
    assert times == ["2020-01-01 01:00", "2020-01-01 00:00:30", "2020-01-01 00:00:00.500000"]
    assert at(day) == "2020-01-01"
