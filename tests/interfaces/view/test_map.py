"""The map: discs and nodes keep their places, nothing is lost, and large graphs cost no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.interfaces.view.panels.community_map import (
    _MOST_BY_FORCE,
    _MOST_EDGES,
    _MOST_NODES,
    node_places,
    opened,
    quotient,
)
from stream_icd.interfaces.view.panels.queries import NothingSeen
from tests.interfaces.view.windows import ORIGIN, Cliques, Nowhere, Placed, drifting, queries, seen
from tests.testbed.windows import window


def only(labels: object) -> SeenWindow:
    """A window with these communities."""
    news = AllSeries().add(window(0, labels), ORIGIN)
    assert news is not None
    return news.window


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
    assert one is not None
    assert [one.community_of(node) for node in found["nodes"]] == found["ids"]
    # 0.3 degrees and its margins, at 39.9 degrees north.
    assert found["km"] == pytest.approx(0.33 * np.cos(np.radians(39.93)) * 111.195, rel=1e-3)


def test_a_window_without_places_or_without_its_graph_says_why() -> None:
    with pytest.raises(NothingSeen, match="where its nodes are"):
        queries(seen(2)).places({})
    drawn = queries(seen(2), Nowhere()).map({})
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
