"""CDlib's definitions of events are the reference: on the same partitions, the same is reported."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cdlib_events import apart, planted_events_of, planted_stream
from benchmarks.shared.pages import sections
from benchmarks.shared.peers.cdlib_peer import (
    LIVES_ON,
    Lives,
    asur,
    facets,
    greene,
    groups_of,
    more_than_half_each,
    published_asur,
    reported_by_asur,
    reported_by_facets,
    reported_by_matches,
    reported_by_tracker,
)
from stream_icd.core.communities import Communities
from stream_icd.methods.tracking.track import TrackSettings
from tests.testbed.windows import follow, window

NOBODY: frozenset[int] = frozenset()
# Labels of two windows' communities, by CDlib's names.
LABELS = {"0_0": 10, "0_1": 11, "0_2": 12, "1_0": 20, "1_1": 21, "1_2": 22}
GREENE_ALONE = TrackSettings(part=1, smallest=1)


@pytest.mark.parametrize(
    ("matches", "reported"),
    [
        ([("0_0", "1_0"), ("0_1", "1_1"), ("0_2", "1_2")],
         {(LIVES_ON, 20): NOBODY, (LIVES_ON, 21): NOBODY, (LIVES_ON, 22): NOBODY}),
        ([("0_0", "1_0"), ("0_1", "1_0"), ("0_2", "1_2")],
         {("merged", 20): {10, 11}, (LIVES_ON, 22): NOBODY, ("born", 21): NOBODY}),
        ([("0_0", "1_0"), ("0_0", "1_1"), ("0_2", "1_2")],
         {("split", 10): {20, 21}, (LIVES_ON, 22): NOBODY, ("died", 11): NOBODY}),
        ([("0_0", "1_0"), ("0_1", "1_0"), ("0_1", "1_1"), ("0_2", "1_2")],
         {("merged", 20): {10, 11}, ("split", 11): {20, 21}, (LIVES_ON, 22): NOBODY}),
    ],
    ids=["lives on", "merger", "split", "both"],
)  # fmt: skip
def test_events_are_read_off_greene_et_als_matches(matches, reported) -> None:
    assert reported_by_matches(matches, LABELS) == reported


def test_asurs_events_have_our_names_and_pairs_are_put_together() -> None:
    pairs = [("0_0", "0_1"), ("0_0", "0_2"), ("0_1", "0_2")]
    events = {
        "Merge": [{"src": "1_0", "ref_sets": [*pair]} for pair in pairs],
        "Split": [{"src": "0_0", "ref_sets": ["1_0", "1_1"]}],
        "Birth": [{"src": "1_2"}],
        "Death": [{"src": "0_1"}],
        "Continuation": [{"src": "0_2", "ref_set": "1_1"}],
    }
    assert reported_by_asur(events, LABELS) == {
        ("merged", 20): {10, 11, 12},
        ("split", 10): {20, 21},
        ("born", 22): NOBODY,
        ("died", 11): NOBODY,
        (LIVES_ON, 21): NOBODY,
    }


def test_as_published_each_of_two_that_merge_brings_more_than_half_of_its_nodes() -> None:
    members = {"0_0": {1, 2, 3}, "0_1": {4, 5}, "0_2": {6, 7, 8}, "1_0": {1, 2, 3, 4, 6, 7}}
    merge = {"src": "1_0", "ref_sets": ["0_0", "0_2"]}
    assert more_than_half_each(merge, members)
    assert not more_than_half_each(merge | {"ref_sets": ["0_0", "0_1"]}, members)
    assert more_than_half_each({"src": "1_0"}, members)


def test_of_facets_the_likeliest_counts_looking_back_and_ahead() -> None:
    backward = {"1_0": {"Merge": 0.6, "Continuation": 0.4}, "1_1": {"Offspring": 1.0},
                "1_2": {"Reorganization": 0.9, "Merge": 0.1}, "0_0": {"Birth": 1.0}}  # fmt: skip
    forward = {"0_0": {"Split": 0.7, "Ancestor": 0.3}, "0_1": {"Ancestor": 0.8, "Death": 0.2},
               "0_2": {"Disassemble": 1.0}, "1_0": {}}  # fmt: skip
    assert reported_by_facets(backward, forward, LABELS) == {
        ("merged", 20): NOBODY,
        ("born", 22): NOBODY,
        ("split", 10): NOBODY,
        ("died", 12): NOBODY,
    }


def test_ours_are_named_by_the_labels_of_the_windows() -> None:
    # 5 and 6 merge into 3, 7 splits into 1 and 2, 8 lives on as 9, 4 dies and 0 is born.
    was = np.repeat([5, 6, 7, 8, 4], [9, 9, 20, 30, 10])
    now = np.repeat([3, 1, 2, 9, 0], [18, 10, 10, 30, 10])
    nodes = [*range(68), *range(100, 110)]
    before, after = follow([window(0, was), window(1, now, nodes)])
    assert reported_by_tracker(before, after) == {
        ("merged", 3): {5, 6},
        ("split", 7): {1, 2},
        (LIVES_ON, 9): NOBODY,
        ("died", 4): NOBODY,
        ("born", 0): NOBODY,
    }


@pytest.fixture(scope="module", name="stream")
def _stream() -> list[tuple[Communities, object]]:
    """A stream with planted events, of which each kind happens."""
    return list(planted_stream(2, lambda graph, _: graph.communities, absent=0))[:15]


def lives(before: Communities, after: Communities) -> Lives:
    return Lives(groups_of(before), groups_of(after))


def test_cdlib_finds_what_we_find_under_greene_et_als_definition(stream) -> None:
    """To the last event, whoever takes part, when to be alike is all that counts.

    Each pair of windows alone, as the definition has it: over more windows, the tracker knows more.
    """
    windows = [found for found, _ in stream]
    kinds = set()
    for pair in pairwise(windows):
        reported = reported_by_tracker(*follow(pair, GREENE_ALONE))
        assert reported == greene(lives(*pair))
        kinds |= {kind for kind, _ in reported}
    assert kinds == {"merged", "split", "born", "died", LIVES_ON}


def test_cdlib_finds_our_mergers_and_splits_under_asur_et_als_definition(stream) -> None:
    windows = [found for found, _ in stream]
    for pair, (before, after), (was, now) in zip(
        pairwise(windows), pairwise(d for _, d in stream), pairwise(follow(windows)), strict=True
    ):
        ours = apart(reported_by_tracker(was, now), before, after)
        theirs = apart(published_asur(lives(*pair)), before, after)
        planted = planted_events_of(before, after)
        assert ours == planted
        assert theirs == {event: others for event, others in planted.items()
                          if event[0] in ("merged", "split")}  # fmt: skip


def test_cdlibs_facets_and_asurs_births_and_deaths() -> None:
    """On communities of which nothing is left, and on new nodes, nobody disagrees."""
    before = window(0, np.repeat([0, 1, 2], 10))
    after = window(1, np.repeat([7, 8, 9], [10, 10, 10]), [*range(20), *range(40, 50)])
    reported = {
        (LIVES_ON, 7): NOBODY,
        (LIVES_ON, 8): NOBODY,
        ("died", 2): NOBODY,
        ("born", 9): NOBODY,
    }
    assert reported_by_tracker(*follow([before, after])) == reported
    assert all(theirs(lives(before, after)) == reported for theirs in (greene, asur, facets))


def test_only_nodes_of_both_windows_count_here_and_all_do_there() -> None:
    before = window(0, np.repeat([0, 1], 20))
    nodes = [*range(4), *range(100, 116), *range(20, 24), *range(200, 216)]
    after = window(1, np.repeat([0, 1], 20), nodes)
    same = {(LIVES_ON, 0): NOBODY, (LIVES_ON, 1): NOBODY}
    assert reported_by_tracker(*follow([before, after])) == same
    assert greene(lives(before, after)) != same
    among = {*range(4), *range(20, 24)}
    assert greene(Lives(groups_of(before, among), groups_of(after, among))) == same


def test_the_programs_of_the_page_leave_each_other_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "DOCS", tmp_path)
    marks = {name: f"<!-- benchmarks/{name} -->\n" for name in ("tracking.py", "cdlib_events.py")}
    end = "<!-- end -->\n"
    page = tmp_path / "tracking.md"
    page.write_text("# Events\n" + "".join(f"{mark}old\n{end}" for mark in marks.values()))
    sections.write_section("tracking.md", "cdlib_events.py", "compared\n")
    sections.write_section("tracking.md", "tracking.py", "found\n")
    found, compared = marks.values()
    expected = f"# Events\n{found}found\n{end}{compared}compared\n{end}"
    assert page.read_text(encoding="utf-8") == expected
