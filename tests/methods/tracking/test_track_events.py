"""What happens to communities has a name, whoever labels them and however nodes come and go."""

from __future__ import annotations

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking.track import TrackSettings
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
    "three merge": (
        groups(5, 5, 9, 9), groups(19, 9), [("merged", 2, (0, 1, 2)), ("continued", 3)]),
    "split": (
        groups(20, 9), groups(12, 8, 9),
        [("split", 0, (0, 2)), ("born", 2, (0,)), ("continued", 1)]),
    "split into three": (
        groups(30, 9), groups(14, 8, 8, 9),
        [("split", 0, (0, 2, 3)), ("born", 2, (0,)), ("born", 3, (0,)), ("continued", 1)]),
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


def test_ids_may_be_text_and_change_their_width_but_text_is_no_number() -> None:
    texts = [f"AS{i}" for i in range(10)]
    _, second = follow([window(i, groups(5, 5), texts) for i in range(2)])
    assert events_of(second) == [("continued", 0), ("continued", 1)]
    narrow = np.arange(10, dtype=np.int16)
    _, second = follow([window(0, groups(5, 5)), window(1, groups(5, 5), narrow)])
    assert events_of(second) == [("continued", 0), ("continued", 1)]
    _, second = follow([window(0, groups(5, 5)), window(1, groups(5, 5), texts)])
    assert [event.kind for event in second.events] == ["born", "born", "died", "died"]


def test_a_community_that_comes_back_has_its_id_back() -> None:
    apart, together = groups(10, 8), groups(18)
    *_, last = follow(
        [window(0, apart), window(1, together), window(2, together), window(3, apart)]
    )
    assert events_of(last) == [("split", 0, (0, 1)), ("returned", 1, (0,))]
    back = last.events[1]
    assert (back.away, back.size_before, back.overlap) == (2, 8, 1.0)
    *_, last = follow([window(0, apart), window(1, groups(10)), window(2, apart)])
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
    *_, last = follow(window(hour, one) for hour, one in enumerate(labels))
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


@pytest.mark.parametrize(
    "wrong", [{"match": 0}, {"match": 1.1}, {"part": 0.4}, {"part": 1.1}, {"change": 0},
              {"smallest": 0}, {"absence": -1}], ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadSettings, match=f"{next(iter(wrong))}="):
        TrackSettings(**wrong)  # type: ignore[arg-type]


APART = [0] * 30 + [1] * 20 + [2] * 30
"""Three communities."""


def moved(labels: list[int], *nodes: int, into: int) -> list[int]:
    return [into if node in nodes else one for node, one in enumerate(labels)]


SOME, MORE = (moved(APART, *range(30, end), into=0) for end in (38, 43))  # 8 and 13 of 20
MOST, TOGETHER = (moved(APART, *range(30, end), into=0) for end in (46, 50))
FOUNDERS = [*range(6), *range(30, 36), *range(50, 56)]  # of 0, 1 and 2
LOST = moved(APART, *FOUNDERS, into=0)
MERGED, RETURNED = ("merged", 0, (0, 1)), ("returned", 1, (0,))

SLOW = {
    "a merger is reported when more than half are in, and what is left ends without a word": (
        (APART, SOME, MORE, TOGETHER), [[], [MERGED], []]),
    "a merger is no split although a few stay behind, who may go elsewhere": (
        (APART, MOST, MOST, moved(MOST, *range(46, 50), into=2)), [[MERGED], [], []]),
    "one that comes out again may merge again": (
        (APART, TOGETHER, APART, TOGETHER), [[MERGED], [("split", 0, (0, 1)), RETURNED], [MERGED]]),
    "one whose nodes met in another lately is born, and no split": (
        (APART, APART, LOST, moved(LOST, *FOUNDERS, into=3)), [[], [], [("born", 3)]]),
    "a split of two that merged before is a split": (
        (APART, APART, TOGETHER, moved(TOGETHER, *range(12), *range(30, 42), into=3)),
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
    labels = (APART, SOME, MORE)
    assert happened(hours(*labels, settings=TrackSettings(absence=0))[-1]) == []
    assert happened(follow(map(window, range(3), labels))[-1]) == []
