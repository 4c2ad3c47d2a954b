"""Events have names, whoever labels communities; a detector's ids are the stable ones.

Neither labels nor the order of nodes matter, no other matching has more overlap, and every planted
event is found. That mergers and splits are those of the papers is tested against CDlib
(benchmarks/tests/test_cdlib.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr
from stream_icd.methods.tracking import identities
from stream_icd.methods.tracking.identities import NodePartition
from stream_icd.methods.tracking.track import TrackSettings, remember, track
from stream_icd.wire.events import decode_events, encode_events
from tests.testbed.planted_events import (
    PLANTED,
    Key,
    Score,
    Step,
    found_events,
    overlaid,
    planted_events,
    score_late,
)
from tests.testbed.windows import events_of, follow, groups, window

CASES = {
    "continued": (groups(10, 10), groups(10, 10), [("continued", 0), ("continued", 1)]),
    "one in ten more is growth": (
        groups(10, 11), groups(11, 10), [("grown", 0), ("continued", 1)]),
    "one in ten fewer is shrinking": (
        groups(10, 12), groups(9, 13), [("shrunk", 0), ("continued", 1)]),
    "merged, the larger keeps its id": (
        groups(8, 10, 9), groups(18, 9), [("merged", 1, (0, 1)), ("continued", 2)]),
    "a small one merges into a large one": (
        groups(50, 3, 9), groups(53, 9), [("merged", 0, (0, 1)), ("continued", 2)]),
    "one that is too small merges without a word": (
        groups(50, 2, 9), groups(52, 9), [("continued", 0), ("continued", 2), ("died", 1)]),
    "split": (
        groups(20, 9), groups(12, 8, 9),
        [("split", 0, (0, 2)), ("born", 2, (0,)), ("continued", 1)]),
    "split into so many that none is the old one": (
        groups(20, 9), groups(5, 5, 5, 5, 9),
        [("born", 2, (0,)), ("born", 3, (0,)), ("born", 4, (0,)), ("born", 5, (0,)),
         ("continued", 1), ("split", 0, (2, 3, 4, 5))]),
    "merged from so many that it is none of them": (
        groups(5, 5, 5, 5), groups(20), [("born", 4, (0, 1, 2, 3)), ("merged", 4, (0, 1, 2, 3))]),
    "merged and split at once": (  # 0 takes in all of 1, and loses 8 of its own 30 as a new one
        groups(30, 5), [0] * 22 + [2] * 8 + [0] * 5,
        [("merged", 0, (0, 1)), ("split", 0, (0, 2)), ("born", 2, (0,))]),
    "scattered is died": (
        groups(10, 10, 10, 3), [*groups(10, 10, 10), 0, 1, 2],
        [("grown", 0), ("grown", 1), ("grown", 2), ("died", 3)]),
    "founded by nodes of many is born": (
        groups(10, 10, 10), [3, *[0] * 9, 3, *[1] * 9, 3, *[2] * 9],
        [("born", 3), ("shrunk", 0), ("shrunk", 1), ("shrunk", 2)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_events(case: str) -> None:
    before, after, expected = CASES[case]
    first, second = follow([window(0, before), window(1, after)])
    assert events_of(first) == [("born", community) for community in range(max(before) + 1)]
    assert first.communities.tolist() == before
    assert events_of(second) == expected


def test_with_part_1_only_who_is_alike_merges_and_splits() -> None:
    only_alike = TrackSettings(part=1)
    _, second = follow([window(0, groups(50, 3, 9)), window(1, groups(53, 9))], only_alike)
    assert events_of(second) == [("continued", 0), ("continued", 2), ("died", 1)]
    _, second = follow([window(0, groups(53, 9)), window(1, groups(50, 3, 9))], only_alike)
    assert events_of(second) == [("continued", 0), ("born", 2), ("continued", 1)]
    _, second = follow([window(0, groups(8, 10, 9)), window(1, groups(18, 9))], only_alike)
    assert events_of(second) == [("merged", 1, (0, 1)), ("continued", 2)]


def test_nodes_that_come_and_go_do_not_blur_who_is_who() -> None:
    _, second = follow([window(0, groups(8, 12)), window(1, groups(10, 10))])
    told = [(e.kind, e.size_before, e.size, e.label, e.overlap) for e in second.events]
    assert told == [("grown", 8, 10, 0, 8 / 10), ("shrunk", 12, 10, 1, 10 / 12)]
    # Only 4 of 20 nodes stay of each: on all nodes the overlap would be 4 of 36.
    before = window(0, groups(20, 20), nodes=range(40))
    nodes = [*range(4), *range(100, 116), *range(20, 24), *range(200, 216)]
    _, second = follow([before, window(1, groups(20, 20), nodes)])
    assert events_of(second) == [("continued", 0), ("continued", 1)]
    assert [event.overlap for event in second.events] == [1.0, 1.0]
    _, second = follow([window(0, groups(5, 5)), window(1, groups(5, 5), range(5, 15))])
    assert events_of(second) == [("continued", 1), ("born", 2), ("died", 0)]


def test_a_community_that_comes_back_has_its_id_back() -> None:
    apart, together = groups(10, 8), groups(18)
    *_, last = follow(map(window, range(4), (apart, together, together, apart)))
    assert events_of(last) == [("split", 0, (0, 1)), ("returned", 1, (0,))]
    back = last.events[1]
    assert (back.away, back.size_before, back.overlap) == (2, 8, 1.0)
    *_, last = follow(map(window, range(3), (apart, groups(10), apart)))
    assert events_of(last) == [("continued", 0), ("returned", 1)]
    assert (last.events[1].size_before, last.events[1].away) == (8, 1)


def test_what_is_away_for_too_long_is_forgotten() -> None:
    apart, together = groups(10, 8), groups(18)
    hours = [window(0, apart), *(window(i, together) for i in range(1, 4)), window(4, apart)]
    assert follow(hours, TrackSettings(absence=3))[-1].events[1].community == 1
    last = follow(hours, TrackSettings(absence=2))[-1]
    assert last.events[1].community == 2, "an id is never given a second time"
    # Community 0 has moved on from nodes 0 to 9 to 4 to 13 when it goes: 0 to 5 are not it.
    labels = [groups(10, 30), [1] * 4 + [0] * 10 + [1] * 26, [1] * 40, groups(6, 34)]
    *_, last = follow(map(window, range(4), labels))
    assert set(last.communities.tolist()) == {1, 2}


def test_missing_windows_are_bridged_and_counted_unless_they_are_too_many() -> None:
    hours = [window(0, groups(5, 5)), window(4, groups(5, 5))]
    second = follow(hours)[1]
    assert second.missed == 3
    assert events_of(second) == [("continued", 0), ("continued", 1)]
    assert [event.away for event in second.events] == [3, 3]
    second = follow(hours, TrackSettings(absence=2))[1]
    assert events_of(second) == [("born", 2), ("born", 3), ("died", 0), ("died", 1)]


def test_a_late_window_is_not_tracked_and_another_model_is_matched_on() -> None:
    hours = [window(0, groups(5, 5)), window(2, groups(5, 5), model="m@2")]
    after = window(3, groups(5, 5), model="m@2")
    _, second, late, last = follow([*hours, window(1, groups(10)), after])
    assert (late.late, late.events, len(late.nodes)) == (True, (), 0)
    assert events_of(second) == events_of(last) == [("continued", 0), ("continued", 1)]
    assert (second.missed, last.missed, last.late) == (1, 0, False)
    assert (second.model_before, second.model, last.model_before) == ("m@1", "m@2", None)


def test_the_community_of_a_node() -> None:
    (numbers,) = follow([window(0, groups(2, 2), [701, 1239, 7018, 3561])])
    assert [numbers.community_of(node) for node in (701, "701", 7018, "7018")] == [0, 0, 1, 1]
    assert numbers.community_of(5) is numbers.community_of("AS5") is None
    assert (numbers.community_of(701.0), numbers.community_of(701.5)) == (0, None)
    (texts,) = follow([window(0, groups(1, 1), ["701", "b"])])
    assert [texts.community_of(node) for node in ("701", 701, "c")] == [0, 0, None]


def test_settings_that_cannot_be_are_refused() -> None:
    wrong = {"match": (0, 1.1), "part": (0.4, 1.1), "change": (0,)}
    wrong |= {"smallest": (0,), "absence": (-1,)}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(BadSettings, match=f"{name}={value}: it must be"):
                TrackSettings(**{name: value})  # type: ignore[arg-type]


THIRDS = [0] * 30 + [1] * 20 + [2] * 30
"""Three communities."""


def moved(labels: list[int], *nodes: int, into: int) -> list[int]:
    return [into if node in nodes else one for node, one in enumerate(labels)]


SOME, MORE = (moved(THIRDS, *range(30, end), into=0) for end in (38, 43))  # 8 and 13 of 20
MOST, TOGETHER = (moved(THIRDS, *range(30, end), into=0) for end in (46, 50))
FOUNDERS = [*range(6), *range(30, 36), *range(50, 56)]  # of 0, 1 and 2
LOST = moved(THIRDS, *FOUNDERS, into=0)
MERGED, RETURNED = ("merged", 0, (0, 1)), ("returned", 1, (0,))

SLOW = {
    "a merger is reported when more than half are in, and what is left ends without a word": (
        (THIRDS, SOME, MORE, TOGETHER), [[], [MERGED], []]),
    "a merger is no split although a few stay behind, who may go elsewhere": (
        (THIRDS, MOST, MOST, moved(MOST, *range(46, 50), into=2)), [[MERGED], [], []]),
    "one that comes out again may merge again": (
        (THIRDS, TOGETHER, THIRDS, TOGETHER),
        [[MERGED], [("split", 0, (0, 1)), RETURNED], [MERGED]]),
    "one whose nodes met in another lately is born, and no split": (
        (THIRDS, THIRDS, LOST, moved(LOST, *FOUNDERS, into=3)), [[], [], [("born", 3)]]),
    "a split of two that merged before is a split": (
        (THIRDS, THIRDS, TOGETHER, moved(TOGETHER, *range(12), *range(30, 42), into=3)),
        [[], [MERGED], [("born", 3, (0,)), ("split", 0, (0, 3))]]),
}  # fmt: skip


def hours(*labels: list[int], settings: TrackSettings | None = None) -> list[CommunityEvents]:
    """What is reported of windows in which a detector's ids are the labels."""
    found = [
        window(hour, np.unique(one, return_inverse=True)[1], ids=np.unique(one))
        for hour, one in enumerate(labels)
    ]
    return follow(found, settings)


def happened(tracked: CommunityEvents) -> list[tuple[object, ...]]:
    steady = {"continued", "grown", "shrunk"}
    return [event for event in events_of(tracked) if event[0] not in steady]


@pytest.mark.parametrize("case", SLOW)
def test_changes_of_several_windows_are_reported_as_what_they_are_and_once(case: str) -> None:
    labels, expected = SLOW[case]
    assert [happened(events) for events in hours(*labels)[1:]] == expected


def test_with_an_absence_of_0_or_without_ids_only_the_last_window_counts() -> None:
    labels = (THIRDS, SOME, MORE)
    assert happened(hours(*labels, settings=TrackSettings(absence=0))[-1]) == []
    assert happened(follow(map(window, range(3), labels))[-1]) == []


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


LABELS = st.integers(1, 24).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, min(4, n - 1)), min_size=n, max_size=n), min_size=1, max_size=5
    )
)


def all_said(tracked: CommunityEvents) -> tuple[object, ...]:
    """All that matters: who is where, and what happened, without the labels of the day."""
    events = [replace(event, label=None) for event in tracked.events]
    return dict(zip(tracked.nodes.to_pylist(), tracked.communities.tolist(), strict=True)), events


def relabelled(communities: Communities, rng: np.random.Generator, hour: int) -> Communities:
    """The same communities with other labels, and nodes in another order."""
    names = rng.permutation(len(communities.labels)).astype(np.int32)
    order = rng.permutation(len(communities.labels))
    return window(hour, names[communities.labels[order]], communities.nodes.take(pa.array(order)))


@given(labels=LABELS, seed=st.integers(0, 99))
@settings(max_examples=40)
def test_labels_and_the_order_of_nodes_change_nothing(labels: list[list[int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    hours = list(map(window, range(len(labels)), labels))
    changed = [relabelled(communities, rng, hour) for hour, communities in enumerate(hours)]
    assert list(map(all_said, follow(changed))) == list(map(all_said, follow(hours)))


@given(labels=LABELS)
@settings(max_examples=25)
def test_ids_are_unique_in_a_window_and_everybody_is_accounted_for(labels) -> None:
    tracked = follow(map(window, range(len(labels)), labels))
    merged = set()  # once; what is left of a community that merged ends without a word
    for before, after in zip([None, *tracked], tracked, strict=False):
        living = set(after.communities.tolist())
        assert len(living) == len(set(np.unique(labels[tracked.index(after)])))
        assert living == {e.community for e in after.events if e.label is not None}
        gone = set(before.communities.tolist()) - living if before else set()
        ends = {e.community for e in after.events if e.label is None}
        merged |= {p for e in after.events if e.kind == "merged" for p in e.parents}
        assert ends <= gone <= ends | merged
        assert after.next_community > max(living)


@given(
    st.lists(st.integers(0, 3), min_size=8, max_size=30),
    st.lists(st.integers(0, 3), min_size=30, max_size=30),
    st.sampled_from([0.05, 0.3, 0.5]),
)
@settings(max_examples=40)
def test_no_other_matching_has_more_overlap(old: list[int], new: list[int], least: float) -> None:
    nodes = pa.array(range(len(old)))
    a = NodePartition.by_name(nodes, np.array(old))
    b = NodePartition.by_first_node(nodes, np.array(new[: len(old)], np.int32))
    found = a.overlaps(b).matched(least)
    sets = [[set(np.flatnonzero(p.labels == c)) for c in range(p.n_communities)] for p in (a, b)]

    def weight(partners: tuple[int, ...]) -> float:
        jaccard = [len(sets[0][i] & sets[1][j]) / len(sets[0][i] | sets[1][j])
                   for j, i in enumerate(partners) if 0 <= i < a.n_communities]  # fmt: skip
        return sum(value for value in jaccard if value >= least)

    padded = [*range(a.n_communities), *[-1] * b.n_communities]
    best = max(map(weight, permutations(padded, b.n_communities)))
    assert weight(tuple(found)) == pytest.approx(best)
    matched = found[found != NOBODY]
    assert len(set(matched)) == len(matched)


def test_a_chain_of_alike_communities_takes_no_table_of_all_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identities, "linear_sum_assignment", None)
    at = np.arange(20_000)
    old, new = (NodePartition.by_first_node(pa.array(at), (at + shift) // 2) for shift in (0, 1))
    between = old.overlaps(new)  # each community has a node of each of its two neighbours
    found = between.matched(0.3)
    matched = found[found != NOBODY]
    assert len(set(matched.tolist())) == len(matched) >= 5_000
    pairs = set(zip(between.old.tolist(), between.new.tolist(), strict=True))
    assert {(old, new) for new, old in enumerate(found.tolist()) if old != NOBODY} <= pairs


Truth = NDArray[np.int64]
_Change = tuple[Drift, CommunityEvents, CommunityEvents, Truth, Truth]
SEED = 11


@cache
def steps() -> tuple[_Change, ...]:
    """A stream with planted events, tracked: (what was planted, before, after, truths)."""
    recent: tuple[CommunityEvents, ...] = ()
    truth_before, found = np.empty(0, np.int64), []
    stream = generate_drifting_lfr(SEED, 30, LfrSettings(n_nodes=2000), event_rate=0.3)
    for hour, (graph, drift) in enumerate(stream):
        truth = drift.identities[graph.communities]
        after = track(recent, window(hour, graph.communities))
        if recent:
            found.append((drift, recent[-1], after, truth_before, truth))
        recent, truth_before = remember(recent, after), truth
    return tuple(found)


def without(keys: set[Key], identities: set[int]) -> set[Key]:
    return {key for key in keys if not key[1] & identities}


def test_every_planted_event_is_found_and_none_is_invented() -> None:
    score = Score()
    for drift, before, after, truth_before, truth in steps():
        tangled = overlaid(drift)
        planted = without(planted_events(drift), tangled)
        found = without(found_events(before, after, truth_before, truth), tangled)
        assert found == planted
        score.add(planted, found)
    assert all(score.found[kind] >= 5 for kind in PLANTED), "the stream holds plenty of each kind"
    assert score.f1() == 1


def test_identities_stay_as_long_as_the_planted_ones() -> None:
    for _, before, after, truth_before, truth in steps():
        was = dict(zip(truth_before, before.communities, strict=True))
        now = dict(zip(truth, after.communities, strict=True))
        kept = [was[identity] == now[identity] for identity in was.keys() & now.keys()]
        assert np.mean(kept) > 0.9


def detected() -> tuple[Step, ...]:
    """A stream of graphs, detected with memory and tracked by its ids."""
    n_nodes, mixing = 2000, 0.3
    parameters = BpParameters(n_nodes / 440, mixing, iterations=1)
    settings = LfrSettings(n_nodes=n_nodes, mixing=mixing)
    memory, nodes = None, pa.array(np.arange(n_nodes))
    recent: tuple[CommunityEvents, ...] = ()
    seen = []
    for hour, (graph, drift) in enumerate(generate_drifting_lfr(4, 14, settings, 0.02, 0.3)):
        at = window(hour, graph.communities).window
        found = detect_window(graph.adjacency(), nodes, at, parameters, memory)
        memory = found.memory
        tracked = track(recent, window(hour, found.communities, ids=found.community_ids))
        assert (tracked.communities == found.community_ids[found.communities]).all()
        recent = remember(recent, tracked)
        seen.append(Step(drift, drift.identities[graph.communities], tracked))
    return tuple(seen)


def test_planted_events_are_found_in_graphs() -> None:
    """`benchmarks.tracking_memory` measures it on more streams."""
    score = score_late(detected(), first=4, latest=3)
    found, missed, invented = (
        sum(events.values()) for events in (score.found, score.missed, score.invented)
    )
    assert found >= 5
    assert 2 * found / (2 * found + missed + invented) >= 0.9
    assert score.on_time() >= 0.95
