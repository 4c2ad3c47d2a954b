"""Changes that take more than one window are reported as what they are, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.methods.tracking import lifecycle
from stream_icd.methods.tracking.settings import TrackSettings
from tests.testbed.windows import follow, window


def hours(*labels: list[int], settings: TrackSettings | None = None) -> list[CommunityEvents]:
    """What is reported of windows in which a detector's ids are the labels."""
    found = [
        window(hour, np.unique(one, return_inverse=True)[1], ids=np.unique(one))
        for hour, one in enumerate(labels)
    ]
    return follow(found, settings)


def of_kind(tracked: CommunityEvents, *kinds: str) -> list[CommunityEvent]:
    return [event for event in tracked.events if event.kind in kinds]


APART = [0] * 30 + [1] * 20 + [2] * 30
"""Three communities."""


def moved(labels: list[int], *nodes: int, into: int) -> list[int]:
    return [into if node in nodes else one for node, one in enumerate(labels)]


def test_a_merger_over_three_windows_is_reported_when_more_than_half_are_in() -> None:
    first = moved(APART, *range(30, 38), into=0)  # 8 of 20
    second = moved(first, *range(38, 43), into=0)  # 5 of the 12 left: 13 of 20
    gone = moved(second, *range(43, 50), into=0)
    tracked = hours(APART, first, second, gone)
    assert [len(of_kind(events, "merged")) for events in tracked] == [0, 0, 1, 0]
    (merger,) = of_kind(tracked[2], "merged")
    assert (merger.community, merger.parents) == (0, (0, 1))
    assert not of_kind(tracked[3], "died", "split", "born")


def test_with_an_absence_of_0_only_the_last_window_counts() -> None:
    first = moved(APART, *range(30, 38), into=0)
    second = moved(first, *range(38, 43), into=0)
    tracked = hours(APART, first, second, settings=TrackSettings(absence=0))
    assert not of_kind(tracked[-1], "merged")


def test_without_ids_only_the_last_window_counts() -> None:
    first = moved(APART, *range(30, 38), into=0)
    second = moved(first, *range(38, 43), into=0)
    tracked = follow(window(hour, one) for hour, one in enumerate((APART, first, second)))
    assert not of_kind(tracked[-1], "merged")


def test_what_is_left_of_a_merged_community_ends_without_another_event() -> None:
    rest = moved(APART, *range(30, 46), into=0)  # 16 of 20 went into 0
    tracked = hours(APART, rest, rest, moved(rest, *range(46, 50), into=2))
    assert of_kind(tracked[1], "merged")
    assert [event.community for event in tracked[3].events] == [0, 2]
    assert not of_kind(tracked[3], "merged", "died")


def test_a_merger_is_no_split_although_a_few_stay_behind() -> None:
    few = moved(APART, *range(30, 46), into=0)
    _, second = hours(APART, few)
    assert of_kind(second, "merged")
    assert not of_kind(second, "split")


def test_a_community_that_comes_out_again_may_merge_again() -> None:
    together = moved(APART, *range(30, 50), into=0)
    tracked = hours(APART, together, APART, together)
    assert [len(of_kind(events, "merged")) for events in tracked] == [0, 1, 0, 1]
    assert [len(of_kind(events, "split")) for events in tracked] == [0, 0, 1, 0]


def test_a_community_whose_nodes_met_in_another_lately_is_born_and_no_split() -> None:
    # Nodes of 0, 1 and 2 are counted to 0 for a window, before they are found to be a community.
    founders = [*range(6), *range(30, 36), *range(50, 56)]
    lost = moved(APART, *founders, into=0)
    found = moved(lost, *founders, into=3)
    tracked = hours(APART, APART, lost, found)
    (newborn,) = of_kind(tracked[3], "born")
    assert newborn.parents == ()
    assert not of_kind(tracked[3], "split")


def test_a_long_chain_of_mergers_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    k, counts, plain = 200, Counter[str](), lifecycle._merged_lately

    class Community(int):
        """A stable id that counts how often it is looked up in a set or a mapping."""

        def __hash__(self) -> int:
            counts["look-ups"] += 1
            return hash(int(self))

    def counted(recent: Sequence[CommunityEvents]) -> dict[int, int]:
        return {Community(old): Community(new) for old, new in plain(recent).items()}

    apart = [community for community in range(k) for _ in range(10)]
    most = [label + (at % 10 < 6) for at, label in enumerate(apart)]  # of each are in the next one
    parted = moved(most, *[at for at, label in enumerate(most) if label == k - 1][:5], into=k + 1)
    assert len(of_kind(hours(apart, most, most)[-1], "merged")) == k - 1
    monkeypatch.setattr(lifecycle, "_merged_lately", counted)
    hours(apart, most, most, parted)
    assert counts["look-ups"] < 100 * k


def test_a_split_of_two_that_merged_before_is_a_split() -> None:
    together = moved(APART, *range(30, 50), into=0)
    halves = moved(together, *range(12), *range(30, 42), into=3)
    tracked = hours(APART, APART, together, halves)
    (split,) = of_kind(tracked[3], "split")
    assert len(split.children) == 2
    assert np.isin(split.community, split.children)
