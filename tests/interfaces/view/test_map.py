"""The map: places last, nothing is lost, and large graphs cost no more than they may."""

from __future__ import annotations

import numpy as np
import pytest

from stream_icd.interfaces.demo.layout import _MOST_BY_FORCE, place_discs, place_members, radii_of
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.interfaces.view.panels.community_map import MOST_EDGES, MOST_NODES, opened, quotient
from tests.interfaces.view.windows import (
    ORIGIN,
    Cliques,
    Nowhere,
    drifting,
    name,
    queries,
    renamed,
    seen,
)
from tests.testbed.windows import window


def only(labels: object) -> SeenWindow:
    """A window with these communities."""
    everything = AllSeries()
    news = everything.add(window(0, labels), ORIGIN)
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


@pytest.mark.parametrize("k", [1, 2, 30, _MOST_BY_FORCE, _MOST_BY_FORCE + 200])
def test_discs_do_not_overlap_much_whatever_their_number(k: int) -> None:
    rng = np.random.default_rng(k)
    sizes = rng.integers(1, 100, k)
    m = min(k, _MOST_BY_FORCE)
    centres = place_discs(np.arange(k), sizes, np.zeros((m, m)), {})
    assert np.isfinite(centres).all()
    radii = radii_of(sizes)
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    deep = (radii[:, None] + radii[None] - apart) / np.minimum(radii[:, None], radii[None])
    np.fill_diagonal(deep, 0)
    assert (deep > 1).mean() < 0.02


def test_the_area_of_a_disc_is_its_number_of_members_however_few() -> None:
    areas = radii_of(np.array([1, 4, 100])) ** 2
    assert areas[1:] / areas[0] == pytest.approx([4, 100])


def test_discs_keep_their_places_from_window_to_window() -> None:
    everything = AllSeries()
    asked = queries(everything)
    before: dict[int, tuple[float, float]] = {}
    moved = []
    for hour, labels in enumerate(drifting(8, nodes=400, k=12)):
        everything.add(renamed(window(hour, labels), "g"), ORIGIN)
        drawn = {disc["id"]: disc for disc in asked.map({})["communities"]}
        size = max(abs(disc["x"]) + disc["r"] for disc in drawn.values())
        for community, (x, y) in before.items():
            if community in drawn:
                disc = drawn[community]
                moved.append(np.hypot(disc["x"] - x, disc["y"] - y) / size)
        before = {community: (disc["x"], disc["y"]) for community, disc in drawn.items()}
    assert np.median(moved) < 0.05


def test_the_map_of_a_window_whose_graph_is_gone_says_why() -> None:
    drawn = queries(seen(2), Nowhere()).map({})
    assert drawn["trouble"] == "the topic no longer holds the snapshot"
    assert drawn["links"] == []
    assert len(drawn["communities"]) == 4


def test_an_open_map_has_at_most_what_the_page_can_draw() -> None:
    one = only(np.arange(6000) // 12)
    inside = opened(one, Cliques().read(one), None)
    assert len(inside["nodes"]) == MOST_NODES
    assert inside["nodes_left_out"] == 1000
    assert len(inside["edges"]) <= 2 * MOST_EDGES
    assert inside["edges_left_out"] > 0
    assert quotient(one, None, {})["whole"] is False


def test_members_with_more_links_lie_nearer_the_centre() -> None:
    degrees = np.array([1, 5, 3, 9, 2])
    distance = np.linalg.norm(place_members(degrees), axis=1)
    assert np.argsort(distance).tolist() == np.argsort(-degrees).tolist()


def test_a_node_that_the_result_lacks_is_left_out() -> None:
    everything = AllSeries()
    everything.add(window(0, [0, 0, 0, 1, 1, 1]), ORIGIN)
    (one,) = everything.windows(name(), 1)
    larger = Cliques().read(only([0] * 8))
    inside = opened(one, larger, None)
    assert len(inside["nodes"]) == 6
