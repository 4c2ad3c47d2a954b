"""The flow adds up: bands are the window, streams are the nodes that both windows have."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.data.series import SeenWindow, _seen_window
from stream_icd.interfaces.view.panels.details import explained_community
from stream_icd.interfaces.view.panels.flow import _OTHERS, flow
from stream_icd.interfaces.view.panels.queries import BadQuestion
from stream_icd.methods.tracking.packed import unpacked
from tests.interfaces.view.windows import ORIGIN, Cliques, ask, name, queries, seen
from tests.testbed.windows import follow, window

Labels = st.lists(
    st.lists(st.integers(0, 5), min_size=6, max_size=14).map(
        lambda labels: np.unique(labels, return_inverse=True)[1]
    ),
    min_size=1,
    max_size=6,
)


def windows_of(found: list[np.ndarray]) -> list[SeenWindow]:
    return seen(found).windows(name(), 100)


@given(Labels, st.integers(1, 4))
def test_bands_hold_every_node_and_streams_those_that_two_windows_have(
    found: list[np.ndarray], most: int
) -> None:
    drawn = flow(windows_of(found), 99, most)
    assert len(drawn["shown"]) <= most
    assert [sum(size for _, size in c["sizes"]) + c["others"] for c in drawn["columns"]] == [
        len(labels) for labels in found
    ]
    common = [min(len(a), len(b)) for a, b in itertools.pairwise(found)]
    assert [sum(n for _, _, n in between) for between in drawn["moves"]] == common
    for at, between in enumerate(drawn["moves"]):
        for side, column in ((0, drawn["columns"][at]), (1, drawn["columns"][at + 1])):
            sizes = {**dict(column["sizes"]), _OTHERS: column["others"]}
            for community, size in sizes.items():
                assert sum(way[2] for way in between if way[side] == community) <= size


def test_a_followed_community_has_a_band_whatever_its_size() -> None:
    labels = np.array([0] * 50 + [1] * 30 + [2] * 2)
    windows = windows_of([labels] * 3)
    assert 2 not in flow(windows, 9, 2)["shown"]
    drawn = flow(windows, 9, 2, [2])
    assert 2 in drawn["shown"]
    assert len(drawn["shown"]) == 2


def test_no_time_is_without_a_band_after_all_has_changed() -> None:
    """Many small communities, then a few large ones: all together, only these have many members."""
    everything = seen([np.arange(60) // 6] * 12)
    seen([np.arange(60) // 20] * 12, names=np.arange(60) + 1000, first=12, to=everything)
    drawn = flow(everything.windows(name(), 100), 99, 3)
    assert all(column["sizes"] for column in drawn["columns"])


def test_bands_keep_their_order_when_sizes_change() -> None:
    few, many = [0] * 10 + [1] * 40, [0] * 40 + [1] * 10
    assert [flow(windows_of([np.array(one)]), 9, 2)["shown"] for one in (few, many)] == [[0, 1]] * 2
    empty = {"shown": [], "columns": [], "moves": [], "levels": 0, "above": 0}
    assert flow([], 9, 5) == empty


def test_births_and_deaths_are_marked() -> None:
    one, two = np.array([0] * 10), np.array([0] * 10 + [1] * 10)
    windows = windows_of([one, two, one])
    marks = [column["marks"] for column in flow(windows, 9, 5)["columns"]]
    assert [[(mark["kind"], mark["id"]) for mark in marked] for marked in marks] == [
        [("born", 0)],
        [("born", 1)],
        [("died", 1)],
    ]


def test_a_new_window_does_not_choose_other_columns() -> None:
    everything = seen(0)
    before: set[int] = set()
    for hour in range(100):
        seen([[0, 0, 1, 1]], first=hour, to=everything)
        drawn = flow(everything.windows(name(), 200), 8, 2)
        columns = [one["number"] for one in drawn["columns"]]
        assert len(columns) <= 9
        assert columns[-1] == hour
        chosen = set(columns[:-1])
        assert before <= chosen or chosen <= before  # more of them, or every second one
        before = chosen


def test_events_say_of_how_many_windows_they_are_where_there_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.panels.queries.MOST_WINDOWS", 3)
    asked = queries(seen(6))
    assert asked.events({})["of_newest"] == 3
    assert queries(seen(3)).events({})["of_newest"] is None


def test_events_that_the_edges_speak_against_are_hidden_and_counted_unless_all_are_asked_for() -> (
    None
):
    apart, together = np.repeat([0, 1, 2], 10), np.repeat([0, 0, 1], 10)
    everything = AllSeries()
    for hour, bits in enumerate((None, -5.0, 7.0)):
        labels, ids = (apart, [0, 1, 2]) if hour != 1 else (together, [0, 2])
        found = window(hour, labels, ids=ids)
        if bits is not None:
            way = (1, 0) if hour == 1 else (0, 1)
            found = replace(found, moved=np.array([way]), moved_bits=np.array([bits]))
        everything.add(found, ORIGIN)
    asked = {**name()._asdict(), "kinds": "merged,split"}
    for least_bits, strengths in (("", [7.0]), ("any", [7.0, -5.0]), ("10", [])):
        listed = queries(everything).events({**asked, "least_bits": least_bits})
        assert [event["bits"] for event in listed["events"]] == strengths
        assert listed["hidden"] == 2 - len(strengths)


def test_what_is_said_of_many_windows_unpacks_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of large graphs take milliseconds each, and megabytes."""
    everything, read = seen(30), list[bytes]()
    monkeypatch.setattr(
        "stream_icd.methods.tracking.packed.unpacked",
        lambda members: read.append(members) or unpacked(members),
    )
    asked = queries(everything)
    assert asked.node({"node": "7"})["seen"] == len(read) == 30
    news = everything.add(window(30, [0, 0, 0, 1, 1, 1, 1, 1]), ORIGIN)
    assert news is not None
    read.clear()
    assert asked.node({"node": "7"})["seen"] == 31
    assert len(read) <= 4  # the new one, and those whose events it confirms or undoes
    read.clear()
    windows = everything.windows(name(), 31)
    explained_community(windows[:-1], 1, Cliques().read, windows[-1])
    assert len(set(read)) <= 6
    asked.flow({})
    read.clear()
    asked.flow({})
    assert read == []  # what two windows share is computed once


def test_the_last_windows_that_both_series_have_are_compared() -> None:
    everything = seen([[0, 0, 1]] * 6, origin="short", to=seen([[0, 0, 1]] * 12, origin="long"))
    others = {"origin": "long", "other_graph": "g", "other_origin": "short"}
    found = ask(everything, "compare", **others, last="4")["windows"]
    assert [one["number"] for one in found] == [2, 3, 4, 5]


SMALL = np.repeat(np.arange(4), [5, 4, 3, 2])


def of_levels(n: int = 2, ids: tuple[int, ...] = (4, 2, 7, 9)) -> AllSeries:
    """Windows of four communities, two of which are one on the level above; a node moves."""
    everything, labels = AllSeries(), SMALL
    for hour in range(n):
        result = window(hour, labels, ids=ids)
        levels = np.minimum.reduceat(np.array(ids), [0, 2]).repeat(2)[None]
        everything.add(replace(result, levels=levels), ORIGIN)
        labels = np.where(np.arange(len(labels)) == 4, 2, labels)
    return everything


def test_the_flow_shows_communities_of_communities_and_zooms_into_one() -> None:
    asked = of_levels()
    small = ask(asked, "flow", above="0")
    assert small["levels"] == 1
    large = ask(asked, "flow", above="1")
    assert large["shown"] == [2, 7]
    assert [one["sizes"] for one in large["columns"]] == [[[2, 9], [7, 5]], [[2, 8], [7, 6]]]
    assert [one["k"] for one in large["columns"]] == [2, 2]
    assert large["moves"] == [[[2, 2, 8], [2, 7, 1], [7, 7, 5]]]
    assert large["columns"][0]["marks"] == []
    inside = ask(asked, "flow", inside="1:2")
    assert inside["shown"] == [2, 4]
    assert [one["nodes"] for one in inside["columns"]] == [9, 8]
    assert inside["moves"] == [[[2, 2, 4], [4, 4, 4]]]
    assert ask(asked, "flow", above="7")["shown"] == [2, 7]  # the coarsest that there is
    assert ask(seen(2), "flow", above="1")["shown"] == [0, 1, 2, 3]


@pytest.mark.parametrize("inside", ["2", "0:2", "1:", "1:x", "x:1", "1:2,3"])
def test_a_band_that_cannot_be_is_refused(inside: str) -> None:
    with pytest.raises(BadQuestion, match="inside: "):
        ask(of_levels(), "flow", inside=inside)


def test_levels_take_the_ids_of_a_tracker() -> None:
    everything = of_levels(1)
    (seen_one,) = everything.windows(name(), 9)
    (own,) = follow([window(0, SMALL, ids=[40, 20, 90, 70])])
    again = _seen_window(0, seen_one.found(), own, None, None)
    assert again.ids.tolist() == [20, 40, 70, 90]
    assert again.levels.tolist() == [[20, 20, 70, 70]]
    assert again.found().levels is not None
