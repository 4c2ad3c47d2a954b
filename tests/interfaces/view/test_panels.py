"""What panels show adds up, has names, says what lasts, keeps its place, and has clear colours."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.interfaces.view.alluvial import COLOURS
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.data.series import SeenWindow, _seen_window
from stream_icd.interfaces.view.panels.community_map import (
    _MOST_BY_FORCE,
    _MOST_EDGES,
    _MOST_NODES,
    node_places,
    opened,
    quotient,
)
from stream_icd.interfaces.view.panels.details import explained_community
from stream_icd.interfaces.view.panels.flow import _OTHERS, flow
from stream_icd.interfaces.view.panels.queries import NothingSeen, Queries
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.packed import unpacked
from tests.interfaces.view.windows import (
    NOWHERE,
    ORIGIN,
    Cliques,
    Placed,
    drifting,
    name,
    named,
    queries,
    seen,
)
from tests.testbed.windows import START, follow, window

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


def test_bands_are_of_the_largest_at_any_time_in_the_order_of_their_ids() -> None:
    labels = np.array([0] * 50 + [1] * 30 + [2] * 2)
    windows = windows_of([labels] * 3)
    assert flow(windows, 9, 2)["shown"] == [0, 1]
    assert flow(windows, 9, 2, [2])["shown"] == [0, 2], "a followed community, whatever its size"
    assert flow(windows_of([1 - labels[:80]]), 9, 2)["shown"] == [0, 1]
    # Many small communities, then a few large ones: all together, only these have many members.
    everything = seen([np.arange(60) // 6] * 12)
    seen([np.arange(60) // 20] * 12, names=np.arange(60) + 1000, first=12, to=everything)
    drawn = flow(everything.windows(name(), 100), 99, 3)
    assert all(column["sizes"] for column in drawn["columns"]), "no time is without a band"
    empty = {"shown": [], "columns": [], "moves": [], "levels": 0, "above": 0}
    assert flow([], 9, 5) == empty


def test_births_and_deaths_are_marked() -> None:
    columns = flow(windows_of([[0] * 10, [0] * 10 + [1] * 10, [0] * 10]), 9, 5)["columns"]
    marks = [[(mark["kind"], mark["id"]) for mark in column["marks"]] for column in columns]
    assert marks == [[("born", 0)], [("born", 1)], [("died", 1)]]


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
    for least_bits, strengths in (("", [7.0]), ("any", [7.0, -5.0]), ("10", [])):
        asked = {"kinds": "merged,split", "least_bits": least_bits}
        listed = queries(everything).events(asked)
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
    everything.add(window(30, [0, 0, 0, 1, 1, 1, 1, 1]), ORIGIN)
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
    found = queries(everything).compare({**others, "last": "4"})["windows"]
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
    asked = queries(of_levels())
    small = asked.flow({"above": "0"})
    assert small["levels"] == 1
    large = asked.flow({"above": "1"})
    assert large["shown"] == [2, 7]
    assert [one["sizes"] for one in large["columns"]] == [[[2, 9], [7, 5]], [[2, 8], [7, 6]]]
    assert [one["k"] for one in large["columns"]] == [2, 2]
    assert large["moves"] == [[[2, 2, 8], [2, 7, 1], [7, 7, 5]]]
    assert large["columns"][0]["marks"] == []
    inside = asked.flow({"inside": "1:2"})
    assert inside["shown"] == [2, 4]
    assert [one["nodes"] for one in inside["columns"]] == [9, 8]
    assert inside["moves"] == [[[2, 2, 4], [4, 4, 4]]]
    assert asked.flow({"above": "7"})["shown"] == [2, 7]  # the coarsest that there is
    assert queries(seen(2)).flow({"above": "1"})["shown"] == [0, 1, 2, 3]


def test_levels_take_the_ids_of_a_tracker() -> None:
    everything = of_levels(1)
    (seen_one,) = everything.windows(name(), 9)
    (own,) = follow([window(0, SMALL, ids=[40, 20, 90, 70])])
    again = _seen_window(0, seen_one.found(), own, None, None)
    assert again.ids.tolist() == [20, 40, 70, 90]
    assert again.levels.tolist() == [[20, 20, 70, 70]]
    assert again.found().levels is not None


APART, TOGETHER = np.repeat([0, 1, 2], 20), np.repeat([0, 0, 1], 20)


def shown(*labels: np.ndarray) -> Queries:
    return queries(seen(labels, to=named(["PC"] * 20 + ["MP"] * 20 + ["2BIO"] * 20)))


def test_communities_have_names_and_are_made_of_the_values_of_their_members() -> None:
    asked_of = shown(APART, TOGETHER)
    pc = {"text": "PC, 20 of 20", "brief": "PC", "attribute": "class", "value": "PC"}
    first = {"at": f"{START:%Y-%m-%dT%H:%M:%SZ}"}
    for answer in (asked_of.flow({}), asked_of.map(first), asked_of.events({})):
        assert answer["names"]["1"] == {**pc, "text": "MP, 20 of 20", "brief": "MP", "value": "MP"}
    assert asked_of.map(first)["names"]["0"] == pc
    parts = asked_of.composition({"community": "0"})["attributes"]["class"]
    assert [tuple(part.values())[:3] for part in parts] == [("MP", 20, 20), ("PC", 20, 20)]
    before, after = (row["class"] for row in asked_of.life({})["columns"]["ami"])
    assert before == 1
    assert 0.5 < after < 0.9


def test_a_value_keeps_its_colour_whatever_comes_and_whenever_somebody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def values(asked_of: Queries) -> list[str]:
        return [row["value"] for row in asked_of.legend({"by": "class"})["values"]]

    asked_of = shown(APART)
    assert values(asked_of) == ["2BIO", "MP", "PC"]
    asked_of.seen.add(window(1, TOGETHER[20:], np.arange(20, 60)), ORIGIN)
    later = asked_of.legend({"by": "class"})
    rows = [(row["value"], row["nodes"]) for row in later["values"]]
    assert rows == [("2BIO", 20), ("MP", 20), ("PC", 0)]
    assert (later["others"], later["unknown"]) == (0, 0)
    for early in (True, False):  # while all that was there is read, or after that
        asked_of = shown(TOGETHER)
        with monkeypatch.context() as reading:
            reading.setattr(type(asked_of.sources), "caught_up", lambda _: False)
            if early:
                values(asked_of)
            asked_of.seen.add(window(1, TOGETHER[:30], np.arange(30)), ORIGIN)
        assert values(asked_of) == ["PC", "MP", "2BIO"]


def test_a_table_of_no_graph_that_is_there_names_nothing_and_says_so() -> None:
    asked_of = shown(APART)
    assert asked_of.flow({})["names"] != {}
    seen([APART], "school", to=asked_of.seen)
    of_other_ids = Naming({"g": attributes_of(pa.array(["anna"]), {"class": ["PC"]})})
    by_text = queries(seen([APART], to=AllSeries(naming=of_other_ids)))
    for one, graphs, trouble in (
        (asked_of, ("g", "school"), "belongs to g, school: give --names g=FILE"),
        (by_text, ("g",), "by text, the graph by integers"),
    ):
        assert [one.flow({"graph": graph})["names"] for graph in graphs] == [{}] * len(graphs)
        assert trouble in one.overview({})["troubles"]["the table of names"]


def test_events_say_how_long_they_lasted_and_of_how_many_windows_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_of = shown(APART, APART, TOGETHER, TOGETHER, APART, APART, APART, APART, APART)
    asked = {"kinds": "merged,split"}
    split, merged = asked_of.events(asked)["events"]
    assert (merged["kind"], merged["lasted"], merged["undone"]) == ("merged", 1, True)
    assert (split["kind"], split["lasted"], split["undone"]) == ("split", 3, False)
    confirmed = asked_of.events({**asked, "lasting": "3"})
    assert [event["kind"] for event in confirmed["events"]] == ["split"]
    assert confirmed["hidden"] == 1
    assert asked_of.events({**asked, "least_bits": "5"})["events"] == []  # none has a strength
    for most, of_newest in ((9, None), (3, 3)):
        monkeypatch.setattr("stream_icd.interfaces.view.panels.queries.MOST_WINDOWS", most)
        assert asked_of.events({})["of_newest"] == of_newest


def test_a_community_has_one_of_nine_colours_which_is_the_same_in_pictures() -> None:
    page = page_files()["colours.js"].content.decode()
    on_light, on_dark = (json.loads(listed) for listed in re.findall(r"ON_\w+ = (\[.*\]);", page))
    assert on_light == list(COLOURS)
    assert len(set(on_light)) == len(set(on_dark)) == 9


def only(labels: object) -> SeenWindow:
    """A window with these communities."""
    return seen([labels]).windows(name(), 1)[0]


def test_discs_links_and_members_add_up() -> None:
    one = only([0] * 5 + [1] * 4 + [2] * 3)
    snapshot = Cliques().read(one)
    drawn = quotient(one, snapshot, {})
    assert [disc["size"] for disc in drawn["communities"]] == [5, 4, 3]
    assert sorted(drawn["links"]) == [[0, 1, 1.0], [1, 2, 1.0]]
    inside = opened(one, snapshot, [1, 2])
    assert len(inside["nodes"]) == 7
    assert len(inside["edges"]) == 2 * (6 + 3 + 1)
    assert inside["nodes_left_out"] == inside["edges_left_out"] == 0
    distance = np.hypot(inside["x"], inside["y"])
    assert distance[:4].argmin() == 0, "whoever has the most links is nearest to the centre"
    more = Cliques().read(only([0] * 13))
    assert len(opened(one, more, None)["nodes"]) == 12, "one node has no community"


@pytest.mark.parametrize("k", [1, 2, 30, _MOST_BY_FORCE, _MOST_BY_FORCE + 200])
def test_discs_are_as_large_as_their_communities_and_hardly_overlap(k: int) -> None:
    sizes = np.random.default_rng(k).integers(1, 100, k)
    discs = quotient(only(np.repeat(np.arange(k), sizes)), None, {})["communities"]
    x, y, radii = np.array([[disc["x"], disc["y"], disc["r"]] for disc in discs]).T
    assert np.isfinite([x, y]).all()
    assert radii**2 / sizes == pytest.approx(radii[0] ** 2 / sizes[0], rel=0.02)
    apart = np.hypot(x[:, None] - x, y[:, None] - y)
    deep = (radii[:, None] + radii - apart) / np.minimum(radii[:, None], radii)
    np.fill_diagonal(deep, 0)
    assert (deep > 1).mean() < 0.02


def test_discs_keep_their_places_from_window_to_window() -> None:
    everything = AllSeries()
    asked = queries(everything)
    before: dict[int, complex] = {}
    moved = []
    for hour, labels in enumerate(drifting(8, nodes=400, k=12)):
        everything.add(window(hour, labels), ORIGIN)
        discs = asked.map({})["communities"]
        size = max(abs(disc["x"]) + disc["r"] for disc in discs)
        node_places = {disc["id"]: complex(disc["x"], disc["y"]) for disc in discs}
        moved += [
            abs(node_places[id] - before[id]) / size for id in node_places.keys() & before.keys()
        ]
        before = node_places
    assert np.median(moved) < 0.05


def test_an_open_map_has_at_most_what_the_page_can_draw() -> None:
    one = only(np.arange(6000) // 12)
    inside = opened(one, Cliques().read(one), None)
    assert len(inside["nodes"]) == _MOST_NODES
    assert inside["nodes_left_out"] == 1000
    assert len(inside["edges"]) <= 2 * _MOST_EDGES
    assert inside["edges_left_out"] > 0
    assert quotient(one, None, {})["whole"] is False


def test_every_known_place_is_shown_with_its_community() -> None:
    everything = queries(seen(2), Placed())
    assert everything.map({})["placed"] == 59
    found = everything.places({})
    assert (len(found["nodes"]), found["unplaced"], found["nodes_left_out"]) == (59, 1, 0)
    assert found["x"] == pytest.approx([116.3 + 0.1 * one for one in found["ids"]])
    one = everything.seen.window(everything.name({}))
    assert [one.community_of(node) for node in found["nodes"]] == found["ids"]
    # 0.3 degrees and its margins, at 39.9 degrees north.
    assert found["km"] == pytest.approx(0.33 * np.cos(np.radians(39.93)) * 111.195, rel=1e-3)


def test_a_window_without_places_or_without_its_graph_says_why() -> None:
    with pytest.raises(NothingSeen, match="where its nodes are"):
        queries(seen(2)).places({})
    drawn = queries(seen(2), NOWHERE).map({})
    assert drawn["trouble"] == "the topic no longer holds the snapshot"
    assert (drawn["links"], drawn["placed"], len(drawn["communities"])) == ([], 0, 4)


def placed(x: Any, y: Any, crs: str = "", before: Any = None) -> dict[str, Any]:
    """The map of a window whose nodes are here."""
    one = only(np.arange(len(x)) % 4)
    coordinates = Coordinates(np.array(x, float), np.array(y, float), crs)
    return node_places(one, Cliques().read(one), coordinates, before)


def test_the_frame_stays_while_most_nodes_are_inside_and_any_spread_gives_numbers() -> None:
    x, y = np.random.default_rng(0).random((2, 200))
    frame = placed(x, y)["frame"]
    assert placed(x * 0.5, y + 0.05, before=frame)["frame"] == frame
    assert placed(x + 0.5, y, before=frame)["frame"][0] > frame[0]
    assert placed([*x, 1e15], [*y, -1e15])["frame"] == pytest.approx(frame, abs=0.05)
    for spread in (0.0, 1e-9, 1e15):
        found = placed(np.linspace(-spread, spread, 60), np.zeros(60))
        left, right, bottom, top = found["frame"]
        assert left < right
        assert bottom < top
        assert np.isfinite(found["x"]).all()
        assert (found["km"], found["aspect"]) == (None, 1)
    poles = placed(np.linspace(-180, 180, 60), np.full(60, 90), DEGREES)
    assert poles["aspect"] == 0.01, "they do not stretch the picture without end"


def test_of_many_places_some_of_all_ids_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.panels.community_map._MOST_PLACES", 10)
    found = placed(np.arange(60), np.arange(60))
    assert (found["nodes_left_out"], found["x"][0], found["x"][-1]) == (50, 0, 59)
