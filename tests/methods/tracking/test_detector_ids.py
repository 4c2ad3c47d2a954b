"""The ids of a detector with memory are the stable ids, if they continue the tracked windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking.track import TrackSettings, remember, track
from stream_icd.wire.events import decode_events, encode_events
from tests.testbed.windows import events_of, follow, groups, window


def names(tracked: CommunityEvents, *nodes: int) -> list[int]:
    return tracked.communities[list(nodes)].tolist()


THREE, FOUR, HALVES = groups(10, 10, 10), groups(10, 10, 10, 5), groups(5, 5, 10, 10)
FIRST = {"ids": [4, 9, 2]}
MOVED = [0] * 2 + [1] * 18 + [0] * 10  # only 2 of the first 10 nodes stay
OTHER = np.tile([0, 1, 2], 10).tolist()

# The labels of each window with the ids of its detector, and the stable ids in the end.
STREAMS = {
    "the first window takes them over": ([(THREE, [4, 9, 2])], [4, 9, 2]),
    "a community that the detector continues lives on even if most nodes are others": (
        [(THREE, [4, 9, 2]), (MOVED, [4, 9])], [4, 9]),
    "without ids, it is another one": ([(THREE, None), (MOVED, None)], [2, 1]),
    "a new community has the number that the detector gave it": (
        [(THREE, [4, 9, 2]), (HALVES, [4, 17, 9, 2])], [4, 17, 9, 2]),
    "windows without ids in between change no name": (
        [(THREE, [4, 9, 2]), (THREE, None), (THREE, [4, 9, 2]), (THREE, None)], [4, 9, 2]),
    "a detector that counts from 0 again is matched by nodes": (
        [(FOUR, [4, 9, 2, 0]), (FOUR, [0, 1, 2, 3]), (FOUR, [0, 1, 2, 3])], [4, 9, 2, 0]),
    "a stream tracked without ids keeps its names when ids begin": (
        [(groups(10, 10), None), (groups(5, 5, 10), None), *[(groups(5, 5, 10), [2, 0, 1])] * 2],
        [0, 2, 1]),
    # Hour 1 was detected without memory: the tracker calls the new community 10, which the
    # detector gives to another one afterwards.
    "an id that stands for other nodes is refused for good": (
        [(groups(10, 10, 12), [4, 9, 2]), (groups(10, 10, 6, 6), None),
         *[(groups(5, 5, 10, 12), [4, 10, 9, 2])] * 2], [4, 11, 9, 2]),
    "after a complete change all have the detector's numbers": (
        [(THREE, [4, 9, 2]), (OTHER, [10, 11, 12])], [10, 11, 12]),
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMS)
def test_ids_of_the_detector_are_the_stable_ones_where_they_continue_the_windows(case: str) -> None:
    stream, expected = STREAMS[case]
    tracked = follow(window(hour, labels, ids=ids) for hour, (labels, ids) in enumerate(stream))
    last, labels = tracked[-1], stream[-1][0]
    assert names(last, *map(labels.index, range(len(expected)))) == expected
    assert last.next_community == max(events.communities.max() for events in tracked) + 1


def test_ids_decide_what_is_born_splits_and_dies() -> None:
    first = window(0, THREE, **FIRST)

    def events_after(*second: object, ids: list[int]) -> list[tuple[object, ...]]:
        return events_of(follow([first, window(1, *second, ids=ids)])[1])

    assert events_of(follow([first])[0]) == [("born", 4), ("born", 9), ("born", 2)]
    assert events_after(HALVES, ids=[4, 17, 9, 2])[:2] == [
        ("split", 4, (4, 17)),
        ("born", 17, (4,)),
    ]
    assert ("died", 4) not in events_after(MOVED, ids=[4, 9])
    born, died = (("born", c) for c in (10, 11, 12)), (("died", c) for c in (2, 4, 9))
    assert events_after(OTHER, ids=[10, 11, 12]) == [*born, *died]
    others = [*range(100, 110), *range(10, 30)]  # all nodes of 4 are other ones
    lives_on = [("continued", 9), ("continued", 2), ("continued", 4)]
    assert events_after(THREE, others, ids=[4, 9, 2]) == lives_on


def test_ids_bridge_more_missing_windows_than_matching_does() -> None:
    late = {"hour": 20, "labels": THREE}
    assert {e.kind for e in follow([window(0, THREE), window(**late)])[1].events} >= {"died"}
    _, second = follow([window(0, THREE, **FIRST), window(**late, ids=[4, 9, 2])])
    assert {(e.kind, e.away) for e in second.events} == {("continued", 19)}
    # One that was away for longer than `absence` has its id again, too.
    there = [window(hour, groups(20), ids=[0]) for hour in range(1, 9)]
    apart = (window(hour, groups(10, 10), ids=[0, 1]) for hour in (0, 9))
    last = follow([next(apart), *there, next(apart)], TrackSettings(absence=2))[-1]
    assert names(last, 0, 10) == [0, 1]
    (event,) = (event for event in last.events if event.community == 1)
    assert (event.kind, event.size, event.size_before, event.away) == ("returned", 10, 0, 3)


def test_a_revision_of_the_first_window_keeps_ids_and_a_reset_gives_none_again() -> None:
    first = track((), window(0, THREE, **FIRST, revision="a"))
    again = track((first,), window(0, THREE, ids=[4, 9, 11], revision="b"))
    assert names(again, 0, 10, 20) == [4, 9, 11]
    reused = track((first,), window(0, THREE, ids=[4, 9, 3], revision="c"))
    assert min(names(reused, 0, 10, 20)) >= 10
    numbered = track((), window(0, THREE, **FIRST), first_id=5)
    assert names(numbered, 0, 10, 20) == [5, 6, 7]
    assert names(track((), window(0, THREE, **FIRST), first_id=2), 0, 10, 20) == [4, 9, 2]


WINDOWS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 4), min_size=12, max_size=12),
        st.permutations(range(12)),
        st.booleans(),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


@given(windows=WINDOWS)
@settings(max_examples=50)
def test_whatever_ids_come_every_community_has_one_name_and_the_wire_holds_it(windows) -> None:
    recent: tuple[CommunityEvents, ...] = ()
    hour, seen = 0, 0
    for labels, ids, has_ids, hours in windows:
        hour += hours
        found = np.unique(labels, return_inverse=True)[1]
        k = int(found.max()) + 1
        tracked = track(recent, window(hour, found, ids=ids[:k] if has_ids else None))
        assert len(np.unique(tracked.communities)) == k
        pairs = set(zip(found.tolist(), tracked.communities.tolist(), strict=True))
        assert len(pairs) == k
        assert tracked.next_community > max(seen - 1, int(tracked.communities.max()))
        seen = tracked.next_community
        message = encode_events(tracked)
        again = decode_events(message.key, message.value, message.headers)
        assert encode_events(again) == message
        assert again.communities.tolist() == tracked.communities.tolist()
        recent = remember(recent, again)


def found(hour: int, ids: list[int], moved: dict[tuple[int, int], float]) -> Communities:
    """A window of a detector that tells the bits of the nodes that moved."""
    stable, labels = np.unique(ids, return_inverse=True)
    pairs = np.array(list(moved), np.int64).reshape(-1, 2)
    told = window(hour, labels, ids=stable)
    return replace(told, moved=pairs, moved_bits=np.array(list(moved.values())))


def bits(*windows: Communities) -> dict[tuple[str, int], float | None]:
    """Those of the events of the last window."""
    return {(event.kind, event.community): event.bits for event in follow(windows)[-1].events}


BEFORE = found(0, [0] * 10 + [1] * 8 + [2] * 12, {})


def test_a_merger_has_the_bits_of_what_went_in_and_a_split_of_what_came_out() -> None:
    after = found(1, [0] * 18 + [2] * 6 + [3] * 6, {(1, 0): 21.5, (2, 3): 7.25, (-1, 3): 9.0})
    happened = bits(BEFORE, after)
    assert (happened["merged", 0], happened["split", 2], happened["born", 3]) == (21.5, 7.25, 7.25)
    without_parents = found(1, [0] * 10 + [1] * 8 + [2] * 12 + [3] * 5, {(-1, 3): 4.0})
    assert bits(BEFORE, without_parents)["born", 3] == 4.0
    untold = found(1, [0] * 18 + [2] * 12, {})
    assert bits(BEFORE, untold)["merged", 0] is None
    assert bits(BEFORE, replace(untold, moved=None, moved_bits=None))["merged", 0] is None
