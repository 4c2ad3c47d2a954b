"""Places of nodes: all that are known, in a frame that stays while the nodes stay in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.interfaces.view.panels.community_map import MOST_PLACES, frame_of, n_placed, places
from stream_icd.interfaces.view.panels.queries import NothingSeen
from stream_icd.interfaces.view.report import kept_answers, write_pictures
from tests.interfaces.view.windows import Cliques, Nowhere, Placed, name, queries, seen


def newest(n: int = 1) -> SeenWindow:
    window = queries(seen(n)).seen.window(queries(seen(n)).name({}))
    assert window is not None
    return window


def at(x: object, y: object, crs: str = "") -> Coordinates:
    return Coordinates(np.array(x, float), np.array(y, float), crs)


def test_every_known_place_is_shown_with_its_community() -> None:
    everything = queries(seen(2), Placed())
    assert everything.map({})["placed"] == 59
    found = everything.places({})
    assert (len(found["nodes"]), found["unplaced"], found["nodes_left_out"]) == (59, 1, 0)
    assert found["x"] == pytest.approx([116.3 + 0.1 * one for one in found["ids"]])
    of_node = dict(zip(found["nodes"], found["ids"], strict=True))
    one = everything.seen.window(everything.name({}))
    assert one is not None
    assert all(one.community_of(node) == community for node, community in of_node.items())
    # 0.3 degrees and its margins, at 39.9 degrees north.
    assert found["km"] == pytest.approx(0.33 * np.cos(np.radians(39.93)) * 111.195, rel=1e-3)


def test_a_graph_without_places_has_none_and_says_so() -> None:
    everything = queries(seen(2))
    assert everything.map({})["placed"] == 0
    with pytest.raises(NothingSeen, match="where its nodes are"):
        everything.places({})
    assert queries(seen(2), Nowhere()).map({})["placed"] == 0
    assert n_placed(None) == 0


def test_the_frame_stays_while_most_nodes_are_inside() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1000))
    frame = frame_of(at(x, y), None)
    assert frame_of(at(x * 0.5, y + 0.05), frame) == frame
    moved = frame_of(at(x + 0.5, y), frame)
    assert moved[0] > frame[0]
    assert frame_of(at([*x, 1e15], [*y, -1e15]), None) == pytest.approx(frame, abs=0.02)


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e15])
def test_any_spread_gives_numbers(spread: float) -> None:
    window = newest()
    n = window.n_nodes
    found = placed(window, at(np.linspace(-spread, spread, n), np.zeros(n)))
    left, right, bottom, top = found["frame"]
    assert left < right
    assert bottom < top
    assert np.isfinite(found["x"]).all()
    assert found["km"] is None
    assert found["aspect"] == 1


def test_the_poles_do_not_stretch_the_picture_without_end() -> None:
    window = newest()
    found = placed(
        window, at(np.linspace(-180, 180, window.n_nodes), np.full(window.n_nodes, 90), DEGREES)
    )
    assert found["aspect"] == 0.01


def test_of_many_places_some_of_all_ids_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.panels.community_map.MOST_PLACES", 10)
    window = newest()
    found = placed(window, at(np.arange(60), np.arange(60)))
    assert found["nodes_left_out"] == 50
    assert found["x"][0] == 0
    assert found["x"][-1] == 59
    assert MOST_PLACES > 10


def test_a_report_and_its_pictures_have_the_places(tmp_path: Path) -> None:
    everything = queries(seen(2), Placed())
    kept = kept_answers(everything, name())["places"]
    assert kept == everything.places({})
    assert kept_answers(queries(seen(2)), name())["places"] is None
    paths = write_pictures(everything, name(), tmp_path, "svg")
    texts = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    assert "longitude" in texts["map"]
    (plain,) = [
        path
        for path in write_pictures(queries(seen(2)), name(), tmp_path, "svg")
        if path.stem == "map"
    ]
    assert "longitude" not in plain.read_text(encoding="utf-8")


def placed(window: SeenWindow, coordinates: Coordinates) -> dict[str, Any]:
    snapshot: Snapshot = replace(Cliques().read(window), coordinates=coordinates)
    return places(window, snapshot, frame_of(coordinates, None))
