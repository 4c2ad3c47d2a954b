"""The ids of a detector with memory are the stable ids, if they continue the tracked windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking.track import TrackSettings, remember, track
from stream_icd.wire.communities import decode_communities, encode_communities
from stream_icd.wire.events import decode_events, encode_events
from tests.testbed.windows import follow, window


def groups(*sizes: int) -> list[int]:
    return np.repeat(np.arange(len(sizes)), sizes).tolist()


def summary(tracked: CommunityEvents) -> list[tuple[object, ...]]:
    return [
        (e.kind, e.community, *filter(None, (e.parents, e.children))) for e in tracked.events
    ]  # fmt: skip


def names(tracked: CommunityEvents, *nodes: int) -> list[int]:
    return tracked.communities[list(nodes)].tolist()


THREE = groups(10, 10, 10)
FIRST = {"ids": [4, 9, 2]}


def test_the_first_window_takes_them_over() -> None:
    (first,) = follow([window(0, THREE, ids=[4, 9, 2])])
    assert summary(first) == [("born", 4), ("born", 9), ("born", 2)]
    assert names(first, 0, 10, 20) == [4, 9, 2]
    assert first.next_community == 10


def test_a_community_that_the_detector_continues_lives_on_even_if_most_nodes_are_others() -> None:
    moved = [0] * 2 + [1] * 18 + [0] * 10  # only 2 of the first 10 nodes stay
    by_ids = follow([window(0, THREE, **FIRST), window(1, moved, ids=[4, 9])])[1]
    assert names(by_ids, 0, 10) == [4, 9]
    assert ("died", 4) not in summary(by_ids)
    by_nodes = follow([window(0, THREE), window(1, moved)])[1]
    assert names(by_nodes, 0) == [2]


def test_a_new_community_has_the_number_that_the_detector_gave_it() -> None:
    halves = groups(5, 5, 10, 10)
    _, second = follow([window(0, THREE, **FIRST), window(1, halves, ids=[4, 17, 9, 2])])
    assert summary(second)[:2] == [("split", 4, (4, 17)), ("born", 17, (4,))]
    assert second.next_community == 18


def test_a_window_without_ids_in_between_changes_no_name() -> None:
    stream = [
        window(0, THREE, **FIRST),
        window(1, THREE),
        window(2, THREE, ids=[4, 9, 2]),
        window(3, THREE),
    ]
    for events in follow(stream):
        assert names(events, 0, 10, 20) == [4, 9, 2]


def test_a_detector_that_counts_from_0_again_is_matched_by_nodes() -> None:
    before = [window(0, groups(10, 10, 10, 5), ids=[4, 9, 2, 0])]
    after = [window(hour, groups(10, 10, 10, 5), ids=[0, 1, 2, 3]) for hour in (1, 2)]
    for events in follow(before + after)[1:]:
        assert {event.kind for event in events.events} == {"continued"}
        assert names(events, 0, 10, 20, 30) == [4, 9, 2, 0]


def test_a_stream_tracked_without_ids_keeps_its_names_when_ids_begin() -> None:
    stream = [window(0, groups(10, 10)), window(1, groups(5, 5, 10))]
    with_ids = [window(hour, groups(5, 5, 10), ids=[2, 0, 1]) for hour in (2, 3)]
    for events in follow(stream + with_ids)[2:]:
        assert {event.kind for event in events.events} == {"continued"}
        assert names(events, 0, 5, 10) == names(follow(stream)[1], 0, 5, 10)


def test_an_id_that_stands_for_other_nodes_is_refused_for_good() -> None:
    # Hour 1 was detected without memory: the tracker calls the new community 10, which the
    # detector gives to another one afterwards.
    stream = [
        window(0, groups(10, 10, 12), ids=[4, 9, 2]),
        window(1, groups(10, 10, 6, 6)),
        window(2, groups(5, 5, 10, 12), ids=[4, 10, 9, 2]),
        window(3, groups(5, 5, 10, 12), ids=[4, 10, 9, 2]),
    ]
    _, second, third, fourth = follow(stream)
    assert names(second, 26) == [10]
    assert names(third, 0, 10, 20, 26) == [4, 9, 2, 2]
    assert names(third, 5)[0] > 10
    assert {event.kind for event in fourth.events} == {"continued"}
    assert fourth.communities.tolist() == third.communities.tolist()


def test_a_community_all_of_whose_nodes_are_others_lives_on_if_the_detector_says_so() -> None:
    nodes = [*range(100, 110), *range(10, 30)]
    _, second = follow([window(0, THREE, **FIRST), window(1, THREE, nodes, ids=[4, 9, 2])])
    assert second.community_of(100) == 4
    assert summary(second) == [("continued", 9), ("continued", 2), ("continued", 4)]


def test_after_a_complete_change_all_are_born_with_the_detectors_numbers() -> None:
    other = np.tile([0, 1, 2], 10)
    _, second = follow([window(0, THREE, **FIRST), window(1, other, ids=[10, 11, 12])])
    assert names(second, 0, 1, 2) == [10, 11, 12]
    assert summary(second) == [("born", 10), ("born", 11), ("born", 12),
                            ("died", 2), ("died", 4), ("died", 9)]  # fmt: skip


def test_ids_bridge_more_missing_windows_than_matching_does() -> None:
    late = {"hour": 20, "labels": THREE}
    assert {e.kind for e in follow([window(0, THREE), window(**late)])[1].events} >= {"died"}
    _, second = follow([window(0, THREE, **FIRST), window(**late, ids=[4, 9, 2])])
    assert {(e.kind, e.away) for e in second.events} == {("continued", 19)}


def test_a_community_that_comes_back_after_long_has_its_number_again() -> None:
    away, there = window(0, groups(10, 10), ids=[0, 1]), groups(20)
    hours = [window(hour, there, ids=[0]) for hour in range(1, 9)]
    back = window(9, groups(10, 10), ids=[0, 1])
    last = follow([away, *hours, back], TrackSettings(absence=2))[-1]
    assert names(last, 0, 10) == [0, 1]
    (event,) = (event for event in last.events if event.community == 1)
    assert (event.kind, event.size, event.size_before, event.away) == ("returned", 10, 0, 3)


def test_a_revision_of_the_first_window_keeps_ids_from_the_middle_of_a_stream() -> None:
    first = track((), window(0, THREE, **FIRST, revision="a"))
    again = track((first,), window(0, THREE, ids=[4, 9, 11], revision="b"))
    assert names(again, 0, 10, 20) == [4, 9, 11]
    reused = track((first,), window(0, THREE, ids=[4, 9, 3], revision="c"))
    assert min(names(reused, 0, 10, 20)) >= 10


def test_after_a_reset_ids_from_before_are_not_given_again() -> None:
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


def test_bits_come_through_the_messages() -> None:
    after = found(1, [0] * 18 + [2] * 12, {(1, 0): 21.5})
    message = encode_communities(after)
    read = decode_communities(message.key, message.value, message.headers)
    assert read.moved is not None
    assert read.moved_bits is not None
    assert (read.moved.tolist(), read.moved_bits.tolist()) == ([[1, 0]], [21.5])
    tracked = track(remember((), track((), BEFORE)), read)
    sent = encode_events(tracked)
    assert decode_events(sent.key, sent.value, sent.headers).events == tracked.events
