"""The map of a window: communities and links, the inside of some, and nodes at their places.

Communities are discs that keep their places from window to window.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.series import SeenWindow

_MOST_LINKS = 1500
_MOST_NODES, _MOST_EDGES, _MOST_PLACES = 5000, 25_000, 10_000
"""What the page draws fluently at a time."""
_INSIDE = 0.9  # a frame is kept while at least this fraction of the nodes lie in it
_OUTLIERS = 0.01
_MARGIN = 0.05
_KM_A_DEGREE = 111.195  # kilometres of a degree of latitude on the mean sphere

_Points = NDArray[np.float64]

_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_FIRST_STEPS, _NEXT_STEPS = 200, 40
_APART_STEPS = 1000  # steps after these in which discs only repel each other, at most
_MOST_BY_FORCE = 150
"""Discs placed by forces: the time grows with their square (200 steps of 150 take 0.4 s)."""

_Centres = Mapping[int, tuple[float, float]]
_Frame = tuple[float, float, float, float]  # least and greatest x, least and greatest y


def quotient(window: SeenWindow, snapshot: Snapshot | None, before: _Centres) -> dict[str, Any]:
    """Return the communities as discs, and the heaviest links between them, if the graph is there.

    `before`: centres of an earlier window, by id.
    """
    ids, sizes = window.ids, window.sizes
    coordinates = None if snapshot is None else snapshot.coordinates
    links = csr_array((len(ids), len(ids))) if snapshot is None else _links(window, snapshot)
    first = _largest(sizes)
    centres = _place_discs(ids, sizes, links[first][:, first].toarray(), before)
    radii = _radii_of(sizes)
    upper = coo_array(links)
    chosen = np.flatnonzero(upper.row < upper.col)
    order = chosen[np.argsort(-upper.data[chosen], kind="stable")][:_MOST_LINKS]
    return {
        "number": window.number,
        "snapshot": window.result.snapshot_id,
        "start": window.result.window.start.isoformat(),
        "nodes": window.n_nodes,
        "edges": window.result.n_edges,
        "whole": window.n_nodes <= _MOST_NODES and window.result.n_edges <= _MOST_EDGES,
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
        "placed": 0 if coordinates is None else int(coordinates.known.sum()),
    }


def opened(
    window: SeenWindow, snapshot: Snapshot, communities: Collection[int] | None
) -> dict[str, Any]:
    """Return members and edges of some communities, or of all.

    `x`, `y`: from the centre of the disc, which only who draws the map knows: discs lie where they
    lay on the map that was drawn before.

    At most `_MOST_NODES` nodes, those with the most links first, and `_MOST_EDGES` edges. `at`:
    positions of the nodes in the snapshot.
    """
    of_node = _ids_of_nodes(window, snapshot)
    members = np.isin(of_node, window.ids if communities is None else list(communities))
    degrees = np.bincount(snapshot.edges.ravel(), minlength=snapshot.n_nodes)
    nodes = np.flatnonzero(members)
    # The nodes with the most links are kept, in the order of the snapshot again.
    nodes = np.sort(nodes[np.argsort(-degrees[nodes], kind="stable")][:_MOST_NODES])
    place_of = np.full(snapshot.n_nodes, -1)
    place_of[nodes] = np.arange(len(nodes))
    ends = place_of[snapshot.edges]
    shown = ends[:, (ends >= 0).all(axis=0)]
    points = np.zeros((len(nodes), 2))
    for community in np.unique(of_node[nodes]).tolist():
        own = np.flatnonzero(of_node[nodes] == community)
        points[own] = _place_members(degrees[nodes[own]])
    return {
        "number": window.number,
        "at": nodes.tolist(),
        "nodes": [str(name) for name in snapshot.nodes.take(nodes).to_pylist()],
        "ids": of_node[nodes].tolist(),
        "x": points[:, 0].round(2).tolist(),
        "y": points[:, 1].round(2).tolist(),
        "edges": shown[:, :_MOST_EDGES].T.ravel().tolist(),
        "nodes_left_out": int(members.sum()) - len(nodes),
        "edges_left_out": max(0, shown.shape[1] - _MOST_EDGES),
    }


def community_layout(edges: NDArray[np.int64], labels: NDArray[np.int32]) -> _Points:
    """Return the positions of the nodes of a graph, `(n, 2)`; edges are `(2, n_edges)`."""
    sizes, degrees = np.bincount(labels), np.bincount(edges.ravel(), minlength=len(labels))
    links = np.zeros((len(sizes), len(sizes)))
    np.add.at(links, (labels[edges[0]], labels[edges[1]]), 1.0)
    links += links.T
    np.fill_diagonal(links, 0)
    first = _largest(sizes)
    positions = _place_discs(
        np.arange(len(sizes)), sizes, links[np.ix_(first, first)], {}, apart=True
    )[labels]
    for community in range(len(sizes)):
        own = labels == community
        positions[own] += _place_members(degrees[own])
    return positions


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


def node_places(
    window: SeenWindow, snapshot: Snapshot, coordinates: Coordinates, before: _Frame | None = None
) -> dict[str, Any]:
    """Return where the nodes of a window are; at most `_MOST_PLACES`, spread over all ids.

    before: the `frame` of an earlier window; it stays as long as most nodes are inside.

    Returns:
        `x`, `y`, `nodes`, `ids` (stable community ids) and `at` (positions in the snapshot) of the
        nodes; `frame`; `aspect`, the length of one unit of x in units of y; `km`, the width of the
        frame in kilometres, or None on a plane; `unplaced`, nodes whose place is not known;
        `nodes_left_out`.
    """
    frame = _frame_of(coordinates, before)
    placed = np.flatnonzero(coordinates.known)
    step = np.linspace(0, len(placed) - 1, min(len(placed), _MOST_PLACES)).round().astype(np.int64)
    chosen = placed[step]
    degrees = coordinates.crs == DEGREES
    middle = math.radians((frame[2] + frame[3]) / 2)
    aspect = max(math.cos(middle), 0.01) if degrees else 1.0
    return {
        "number": window.number,
        "snapshot": window.result.snapshot_id,
        "degrees": degrees,
        "frame": frame,
        "aspect": aspect,
        "at": chosen.tolist(),
        "km": (frame[1] - frame[0]) * aspect * _KM_A_DEGREE if degrees else None,
        "nodes": [str(name) for name in snapshot.nodes.take(chosen).to_pylist()],
        "ids": _ids_of_nodes(window, snapshot)[chosen].tolist(),
        "x": _rounded(coordinates.x[chosen], frame[1] - frame[0]),
        "y": _rounded(coordinates.y[chosen], frame[3] - frame[2]),
        "unplaced": snapshot.n_nodes - len(placed),
        "nodes_left_out": len(placed) - len(chosen),
    }


def _frame_of(coordinates: Coordinates, before: _Frame | None) -> _Frame:
    """Return the frame before, as long as most nodes are inside; otherwise a new one.

    A new frame leaves out the outermost nodes on each side, which are often errors of measurement.
    """
    x, y = coordinates.x[coordinates.known], coordinates.y[coordinates.known]
    if before is not None:
        left, right, bottom, top = before
        inside = (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
        if inside.mean() >= _INSIDE:
            return before
    return *_span(x), *_span(y)


def _span(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, [_OUTLIERS, 1 - _OUTLIERS]).tolist()
    margin = _MARGIN * (high - low) or max(1e-6, abs(low) * 1e-6)
    return low - margin, high + margin


def _rounded(values: NDArray[np.float64], span: float) -> list[float]:
    """Return values to a hundred-thousandth of the frame, which is finer than a pixel."""
    rounded: list[float] = values.round(5 - math.floor(math.log10(span))).tolist()
    return rounded


def _radii_of(sizes: NDArray[np.int64]) -> _Points:
    """Return the radius of each disc: its area is proportional to its number of members."""
    return np.sqrt(sizes) * 1.15


def _place_discs(
    ids: NDArray[np.int64],
    sizes: NDArray[np.int64],
    links: NDArray[np.float64],
    before: Mapping[int, tuple[float, float]],
    *,
    apart: bool = False,
) -> _Points:
    """Return the centre of each disc, `(K, 2)`; discs with many links are close.

    The largest `_MOST_BY_FORCE` are placed by forces: links and the centre attract, overlapping
    discs repel. The others lie in a spiral around them, in the order of their ids.

    Args:
        ids: stable id of each community, ascending.
        links: weight of the edges between the largest communities, `(m, m)`, symmetric, where m is
            the smaller of K and `_MOST_BY_FORCE`, in the order of `_largest`.
        before: centres in an earlier window, by id: discs stay there as far as they can.
        apart: go on until hardly any discs overlap, which takes up to six times as long.
    """
    radii = _radii_of(sizes)
    first = _largest(sizes)
    centres = np.zeros((len(ids), 2))
    was_drawn = np.isin(ids[first], list(before))
    # A direction for each id, so that nothing is random.
    start = np.sqrt((radii[first] ** 2).sum()) * 1.2 * _unit(ids[first] * _GOLDEN_ANGLE)
    for at in np.flatnonzero(was_drawn):
        start[at] = before[int(ids[first[at]])]
    # Few steps keep most discs where they were; many new ones need as long as a first map.
    steps = _NEXT_STEPS if was_drawn.mean() > 0.5 else _FIRST_STEPS
    centres[first] = _settled(start, radii[first], links, steps, _APART_STEPS if apart else 0)
    rest = np.setdiff1d(np.arange(len(ids)), first)
    if len(rest):
        edge = (np.linalg.norm(centres[first], axis=1) + radii[first]).max()
        step = 2 * radii[rest].max()
        rank = np.arange(len(rest))
        # A spiral of equal areas: as much room for the last disc as for the first.
        distance = np.sqrt((edge + step) ** 2 + rank * step**2)
        centres[rest] = distance[:, None] * _unit(rank * _GOLDEN_ANGLE)
    return centres


def _largest(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the communities that are placed by forces, ascending."""
    order = np.argsort(-sizes, kind="stable")[:_MOST_BY_FORCE]
    return np.sort(order)


def _place_members(degrees: NDArray[np.int64]) -> _Points:
    """Return places around the origin, `(n, 2)`: nodes with more links lie nearer the centre."""
    rank = np.empty(len(degrees), np.int64)
    rank[np.argsort(-degrees, kind="stable")] = np.arange(len(degrees))
    points: _Points = np.sqrt(rank + 0.5)[:, None] * _unit(rank * _GOLDEN_ANGLE)
    return points


def _settled(
    centres: _Points, radii: _Points, links: NDArray[np.float64], steps: int, more: int
) -> _Points:
    # 1e-300: a disc without links is drawn by nothing, and not NaN.
    pull = links / np.maximum(links.sum(axis=1, keepdims=True), 1e-300) * 0.5
    touch = radii[:, None] + radii[None, :]
    for step in range(steps + more):
        apart = centres[:, None, :] - centres[None, :, :]
        distance = np.linalg.norm(apart, axis=2) + 1e-9  # of a disc to itself: not 0
        overlap = np.clip(touch - distance, 0, None)
        np.fill_diagonal(overlap, 0)  # a disc does not push itself
        if step >= steps and overlap.max() < 0.05 * radii.min():
            break
        push = (apart / distance[..., None] * overlap[..., None]).sum(axis=1) / 2
        drawn = -(pull[..., None] * apart).sum(axis=1) - 0.05 * centres
        # The pull fades to nothing by the last of `steps`: else discs would overlap for ever.
        centres = centres + 0.5 * push + 0.3 * max(0.0, 1 - step / steps) * drawn
    return centres


def _unit(angle: NDArray[np.floating] | NDArray[np.integer]) -> _Points:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
