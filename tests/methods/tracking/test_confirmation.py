"""Events are confirmed when they have lasted, and undone ones are not reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking.confirmation import (
    STEPS,
    FollowedEvents,
    confirmed,
    followed,
    still_hold,
)
from tests.streaming.workers.tracked import unbroken, window
from tests.testbed.windows import HOUR

APART, TOGETHER = [0] * 10 + [1] * 8, [0] * 18


def tracked(*labels: Sequence[int], graph: str = "g") -> list[CommunityEvents]:
    return unbroken(window(graph, hour, found) for hour, found in enumerate(labels))


def kinds(windows: Sequence[CommunityEvents], lasting: int) -> list[set[str]]:
    return [
        {event.kind for event in events.events if event.kind in ("merged", "split")}
        for events in confirmed(windows, lasting)
    ]


def test_events_that_last_are_confirmed_that_many_windows_later_and_others_are_not() -> None:
    windows = tracked(APART, APART, TOGETHER, TOGETHER, TOGETHER)
    assert kinds(windows, 2) == [set(), set(), {"merged"}]
    assert [events.snapshot_id for events in confirmed(windows, 2)] == ["g/0", "g/1", "g/2"]
    windows = tracked(APART, APART, TOGETHER, APART, APART, APART)
    assert kinds(windows, 2) == [set(), set(), set(), {"split"}]
    assert kinds(windows[:4], 1) == [set(), set(), set()]
    windows = tracked(TOGETHER, TOGETHER, APART, APART, TOGETHER, TOGETHER)
    assert {"split"} in kinds(windows, 1)
    assert {"split"} not in kinds(windows, 2)
    born = [*APART, *[2] * 6]
    first, second, third = tracked(APART, born, APART)
    held = zip(second.events, still_hold(second.events, first, second, third), strict=True)
    assert {event.kind: holds for event, holds in held} == {"continued": True, "born": False}
    assert all(still_hold(second.events, first, second, second))
    # A merger of unknown parts holds while its community exists.
    _, merged, gone = tracked(APART, TOGETHER, [*range(18)])
    holds = [still_hold(merged.events, None, merged, later) for later in (merged, gone)]
    assert holds == [[True], [False]]


def late_window(window: CommunityEvents) -> CommunityEvents:
    nothing = {"nodes": window.nodes.slice(0, 0), "communities": np.empty(0, np.int64)}
    return replace(window, **nothing, events=(), late=True)


def test_graphs_are_confirmed_each_for_itself_and_late_windows_are_left_out() -> None:
    one, other = (tracked(APART, TOGETHER, TOGETHER, graph=graph) for graph in ("a", "b"))
    mixed = [window for pair in zip(one, other, strict=True) for window in pair]
    found = list(confirmed([*mixed[:3], late_window(one[0]), *mixed[3:]], 1))
    assert [each.snapshot_id for each in found] == ["a/0", "b/0", "a/1", "b/1"]


def test_a_revision_takes_the_place_of_the_window_that_it_corrects() -> None:
    first, wrong, third = tracked(APART, TOGETHER, TOGETHER)
    (_, right) = tracked(APART, APART)
    assert kinds([first, wrong, third], 1) == [set(), {"merged"}]
    assert kinds([first, wrong, right, third], 1) == [set(), set()]
    for waiting in (0, 9):  # all are told to those who follow
        told = list(followed([first, wrong, right, late_window(first), third], waiting))
        assert [one.late for one in told] == [False, False, False, True, False]
        assert [one.events for one in told[1:3]] == [wrong.events, right.events]
        assert told[2].before is not None
        assert told[2].before.snapshot_id == "g/0"


def lasted(told: Sequence[FollowedEvents], kind: str) -> list[tuple[int, bool]]:
    """The hours for which events of a kind lasted, and whether they were undone."""
    known = [(event, last) for one in told for event, last in one.lasted.items()]
    return [(last.time // HOUR, last.undone) for event, last in known if event.kind == kind]


def test_windows_that_wait_tell_how_long_their_events_have_lasted() -> None:
    windows = tracked(APART, TOGETHER, TOGETHER, TOGETHER, APART, APART)
    told = list(followed(windows, len(windows)))
    assert [one.snapshot_id for one in told] == [f"g/{hour}" for hour in range(6)]
    assert lasted(told, "merged") == [(2, True)]
    assert lasted(told, "split") == [(1, False)]
    long = list(followed(tracked(APART, *[TOGETHER] * 9), 20))  # known as of the last step
    assert lasted(long, "merged") == [(max(step for step in STEPS if step < 9), False)]
    at_once = list(followed(windows, 0))
    assert [one.events for one in at_once] == [one.events for one in windows]
    assert not any(one.lasted for one in at_once)
    for found in (told, at_once):
        before = [one.before and one.before.snapshot_id for one in found]
        assert before == [None, "g/0", "g/1", "g/2", "g/3", "g/4"]


def test_names_of_the_tracker_are_those_of_both_windows() -> None:
    def given(window: CommunityEvents, name: str) -> CommunityEvents:
        named = (replace(event, name=f"{name} {event.community}") for event in window.events)
        return replace(window, events=tuple(named))

    before, after = tracked(APART, TOGETHER)
    (_, told) = followed([given(before, "early"), given(after, "late")], 0)
    assert told.names == {0: "late 0", 1: "early 1"}
    assert before.names_given() == {}
