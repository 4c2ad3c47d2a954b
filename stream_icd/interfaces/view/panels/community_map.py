"""The map of a window: communities and links, the inside of some, and nodes at their places."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.demo.layout import largest, place_discs, place_members, radii_of
from stream_icd.interfaces.view.data.window import SeenWindow

_MOST_LINKS = 1500
MOST_NODES, MOST_EDGES, MOST_PLACES = 5000, 25_000, 10_000
"""What the page draws fluently at a time."""
_INSIDE = 0.9
"""A frame is kept while at least this fraction of the nodes lie in it."""
_OUTLIERS = 0.01
_MARGIN = 0.05
_KM_A_DEGREE = 111.195
"""Kilometres of a degree of latitude on the mean sphere."""

_Centres = Mapping[int, tuple[float, float]]
Frame = tuple[float, float, float, float]
"""Least and greatest x, least and greatest y."""


def quotient(window: SeenWindow, snapshot: Snapshot | None, before: _Centres) -> dict[str, Any]:
    """Return the communities as discs, and the heaviest links between them, if the graph is there.

    `before`: centres of an earlier window, by id.
    """
    ids, sizes = window.ids, window.sizes
    links = csr_array((len(ids), len(ids))) if snapshot is None else _links(window, snapshot)
    first = largest(sizes)
    centres = place_discs(ids, sizes, links[first][:, first].toarray(), before)
    radii = radii_of(sizes)
    upper = coo_array(links)
    chosen = np.flatnonzero(upper.row < upper.col)
    order = chosen[np.argsort(-upper.data[chosen], kind="stable")][:_MOST_LINKS]
    return {
        "number": window.number,
        "snapshot": window.result.snapshot_id,
        "start": window.result.window.start.isoformat(),
        "nodes": window.n_nodes,
        "edges": window.result.n_edges,
        "whole": window.n_nodes <= MOST_NODES and window.result.n_edges <= MOST_EDGES,
        "communities": [
            {
                "id": int(ids[at]),
                "size": int(sizes[at]),
                "x": round(float(centres[at, 0]), 2),
                "y": round(float(centres[at, 1]), 2),
                "r": round(float(radii[at]), 2),
            }
            for at in range(len(ids))
        ],
        "links": [
            [int(ids[upper.row[at]]), int(ids[upper.col[at]]), round(float(upper.data[at]), 3)]
            for at in order.tolist()
        ],
        "links_left_out": len(chosen) - len(order),
    }


def opened(
    window: SeenWindow, snapshot: Snapshot, communities: Collection[int] | None
) -> dict[str, Any]:
    """Return members and edges of some communities, or of all.

    `x`, `y`: from the centre of the disc, which only who draws the map knows: discs lie where they
    lay on the map that was drawn before.

    At most `MOST_NODES` nodes, those with the most links first, and `MOST_EDGES` edges. `at`:
    positions of the nodes in the snapshot.
    """
    of_node = _ids_of_nodes(window, snapshot)
    wanted = np.isin(of_node, window.ids if communities is None else list(communities))
    degrees = np.bincount(snapshot.edges.ravel(), minlength=snapshot.n_nodes)
    nodes = np.flatnonzero(wanted)
    nodes = np.sort(nodes[np.argsort(-degrees[nodes], kind="stable")][:MOST_NODES])
    place_of = np.full(snapshot.n_nodes, -1)
    place_of[nodes] = np.arange(len(nodes))
    ends = place_of[snapshot.edges]
    shown = ends[:, (ends >= 0).all(axis=0)]
    places = np.zeros((len(nodes), 2))
    for community in np.unique(of_node[nodes]).tolist():
        here = np.flatnonzero(of_node[nodes] == community)
        places[here] = place_members(degrees[nodes[here]])
    return {
        "number": window.number,
        "at": nodes.tolist(),
        "nodes": [str(name) for name in snapshot.nodes.take(nodes).to_pylist()],
        "ids": of_node[nodes].tolist(),
        "x": places[:, 0].round(2).tolist(),
        "y": places[:, 1].round(2).tolist(),
        "edges": shown[:, :MOST_EDGES].T.ravel().tolist(),
        "nodes_left_out": int(wanted.sum()) - len(nodes),
        "edges_left_out": max(0, shown.shape[1] - MOST_EDGES),
    }


def _ids_of_nodes(window: SeenWindow, snapshot: Snapshot) -> NDArray[np.int64]:
    """Return the stable id of each node of the snapshot; -1 for nodes without a community."""
    return window.tracked(events=False).communities_of(snapshot.nodes)


def _links(window: SeenWindow, snapshot: Snapshot) -> csr_array:
    """Return the weight of the edges between communities, `(K, K)`."""
    ends = _ids_of_nodes(window, snapshot)[snapshot.edges]
    between = (ends >= 0).all(axis=0) & (ends[0] != ends[1])
    column, row = np.searchsorted(window.ids, ends[:, between])
    weights = np.ones(snapshot.n_edges) if snapshot.weights is None else snapshot.weights
    k = window.n_communities
    links = coo_array((weights[between], (row, column)), (k, k)).tocsr()
    return csr_array(links + links.T)


def frame_of(coordinates: Coordinates, before: Frame | None) -> Frame:
    """Return the frame before, as long as most nodes are inside; otherwise a new one.

    A new frame leaves out the outermost nodes on each side, which are often errors of measurement.
    """
    known = coordinates.known
    x, y = coordinates.x[known], coordinates.y[known]
    if before is not None:
        left, right, bottom, top = before
        inside = (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
        if inside.mean() >= _INSIDE:
            return before
    return *_span(x), *_span(y)


def places(window: SeenWindow, snapshot: Snapshot, frame: Frame) -> dict[str, Any]:
    """Return where the nodes of a window are; at most `MOST_PLACES`, spread over all ids.

    Returns:
        `x`, `y`, `nodes`, `ids` (stable community ids) and `at` (positions in the snapshot) of the
        nodes; `frame`; `aspect`, the
        length of one unit of x in units of y; `km`, the width of the frame in kilometres, or None
        on a plane; `unplaced`, nodes whose place is not known; `nodes_left_out`.
    """
    coordinates = snapshot.coordinates
    assert coordinates is not None
    known = np.flatnonzero(coordinates.known)
    step = np.linspace(0, len(known) - 1, min(len(known), MOST_PLACES)).round().astype(np.int64)
    chosen = known[step]
    degrees = coordinates.crs == DEGREES
    middle = math.radians((frame[2] + frame[3]) / 2)
    aspect = max(math.cos(middle), 0.01) if degrees else 1.0
    return {
        "number": window.number,
        "snapshot": window.result.snapshot_id,
        "degrees": degrees,
        "frame": list(frame),
        "aspect": aspect,
        "at": chosen.tolist(),
        "km": (frame[1] - frame[0]) * aspect * _KM_A_DEGREE if degrees else None,
        "nodes": [str(name) for name in snapshot.nodes.take(chosen).to_pylist()],
        "ids": _ids_of_nodes(window, snapshot)[chosen].tolist(),
        "x": _rounded(coordinates.x[chosen], frame[1] - frame[0]),
        "y": _rounded(coordinates.y[chosen], frame[3] - frame[2]),
        "unplaced": snapshot.n_nodes - len(known),
        "nodes_left_out": len(known) - len(chosen),
    }


def n_placed(snapshot: Snapshot | None) -> int:
    """Return the number of nodes whose place is known."""
    coordinates = None if snapshot is None else snapshot.coordinates
    return 0 if coordinates is None else int(coordinates.known.sum())


def _span(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, [_OUTLIERS, 1 - _OUTLIERS]).tolist()
    margin = _MARGIN * (high - low) or max(1e-6, abs(low) * 1e-6)
    return low - margin, high + margin


def _rounded(values: NDArray[np.float64], span: float) -> list[float]:
    """Return values to a hundred-thousandth of the frame, which is finer than a pixel."""
    rounded: list[float] = values.round(5 - math.floor(math.log10(span))).tolist()
    return rounded
