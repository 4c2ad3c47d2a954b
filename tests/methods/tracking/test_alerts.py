"""Which alerts the windows of a graph give, and in which words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.rules import Rule
from stream_icd.wire.alerts import Alert
from tests.streaming.workers.tracked import unbroken, window

A, B, C = [0] * 10, [1] * 10, [2] * 10
APART = [*A, *B, *C]
MERGED = [*A, *A, *C]
WATCHED = frozenset(("25", "99"))


def tracked(*labels: list[int]) -> list[CommunityEvents]:
    return unbroken(window("g", hour, found) for hour, found in enumerate(labels))


def alerting(*rules: str, lasting: int = 0) -> Alerting:
    return Alerting([Rule.parse(rule, lambda _: WATCHED) for rule in rules], lasting, "desk")


def alerts(told: Alerting, windows: Sequence[CommunityEvents]) -> list[list[Alert]]:
    """The alerts of each window, as a worker gets them."""
    return [
        list(told.alerts(windows[max(end - told.windows, 0) : end]))
        for end in range(1, len(windows) + 1)
    ]


def test_a_merger_is_told_with_what_happened() -> None:
    rules = "merged and size >= 20", "size > 5 and not split"
    first, (alert,) = alerts(alerting(*rules), tracked(APART, MERGED))
    assert first == []
    assert alert.event == "merged"
    assert (alert.size, alert.group, alert.graph, alert.snapshot_id) == (20, "desk", "g", "g/1")
    assert alert.rules == ("merged and size >= 20", "size > 5 and not split")
    assert alert.text == "community 1 (10 nodes) joined community 0"
    assert sorted(alert.parents) == [0, 1]
    ((other,),) = alerts(alerting("merged or born"), tracked(APART, MERGED))[1:]
    assert other.id == alert.id  # it names the event, whatever rule fired


def test_the_first_window_has_no_alerts_and_births_that_a_split_causes_are_none() -> None:
    found = alerts(alerting("born or split"), tracked(MERGED, APART))
    assert [[alert.event for alert in of] for of in found] == [[], ["split"]]
    ((merger,),) = alerts(alerting("merged"), tracked(APART, MERGED))[1:]
    assert found[1][0].id != merger.id


def test_strength_and_names_are_in_the_words() -> None:
    before, now = tracked(APART, MERGED)
    events = tuple(replace(event, bits=31.4, name="mostly RU") for event in now.events)
    (alert,) = alerting("bits > 31 and size < 99").alerts([before, replace(now, events=events)])
    assert (alert.bits, alert.name) == (31.4, "mostly RU")
    assert alert.text == "community 1 (10 nodes) joined community 0 (mostly RU) (31 bits)"


@pytest.mark.parametrize(("undone", "told"), [(False, ["merged"]), (True, [])])
def test_confirmed_events_come_once_they_have_held(undone: bool, told: list[str]) -> None:
    hours = tracked(APART, MERGED, MERGED, APART if undone else MERGED)
    found = alerts(alerting("merged", lasting=2), hours)
    assert found[:3] == [[], [], []]
    assert [alert.event for alert in found[3]] == told
    assert all(alert.snapshot_id == "g/1" and alert.confirmed == 2 for alert in found[3])


def test_a_watched_node_that_moves() -> None:
    moved = [*A, *B, *C[:5], 0, *C[6:]]  # node 25
    (alert,) = alerts(alerting("node in watch.csv and moved"), tracked(APART, moved))[1]
    assert (alert.event, alert.node) == ("moved", "25")
    assert (alert.community_before, alert.community) == (2, 0)
    assert alert.text == "25 moved from community 2 to community 0"
    assert (alert.size, alert.size_before) == (11, 10)
    assert alerts(alerting("node = 26 and moved"), tracked(APART, moved)) == [[], []]
    confirmed = alerting("node = 25 and moved", lasting=1)
    assert alerts(confirmed, tracked(APART, moved, APART)) == [[], [], []]
    assert [len(of) for of in alerts(confirmed, tracked(APART, moved, moved))] == [0, 0, 1]


def test_events_of_communities_with_a_watched_node() -> None:
    split = [*A, *B, *C[:5], *[3] * 5]
    found = alerts(alerting("node in watch.csv and not continued"), tracked(APART, split, split))
    assert {alert.event for alert in found[1]} == {"split"}
    assert found[2] == []
    assert alerts(alerting("node = 25"), tracked(APART, APART)) == [[], []]
    assert len(alerts(alerting("node = 25 and continued"), tracked(APART, APART))[1]) == 1
    assert alerts(alerting("node = 3 and split"), tracked(APART, split)) == [[], []]
