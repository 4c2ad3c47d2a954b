"""Nodes at the places that their source named, in a frame that stays from window to window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_icd.coordinates import DEGREES, Coordinates
from stream_icd.snapshot import Snapshot
from stream_icd.view.data.window import SeenWindow, partition
from stream_icd.view.panels.community_map import ids_of_nodes

MOST_PLACES = 10_000
"""What the page draws fluently at a time."""
INSIDE = 0.9
"""A frame is kept while at least this fraction of the nodes lie in it."""
OUTLIERS = 0.01
MARGIN = 0.05
KM_A_DEGREE = 111.195
"""Kilometres of a degree of latitude on the mean sphere."""

Frame = tuple[float, float, float, float]
"""Least and greatest x, least and greatest y."""


def frame_of(coordinates: Coordinates, before: Frame | None) -> Frame:
    """Return the frame before, as long as most nodes are inside; otherwise a new one.

    A new frame leaves out the outermost nodes on each side, which are often errors of measurement.
    """
    known = coordinates.known
    x, y = coordinates.x[known], coordinates.y[known]
    if before is not None:
        left, right, bottom, top = before
        inside = (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
        if inside.mean() >= INSIDE:
            return before
    (left, right), (bottom, top) = (_span(one) for one in (x, y))
    return left, right, bottom, top


def places(one: SeenWindow, snapshot: Snapshot, frame: Frame) -> dict[str, Any]:
    """Return where the nodes of a window are; at most `MOST_PLACES`, spread over all ids.

    Returns:
        `x`, `y`, `nodes` and `ids` (stable community ids) of the nodes; `frame`; `aspect`, the
        length of one unit of x in units of y; `km`, the width of the frame in kilometres, or None
        on a plane; `unplaced`, nodes whose place is not known; `nodes_left_out`.
    """
    coordinates = snapshot.coordinates
    assert coordinates is not None
    known = np.flatnonzero(coordinates.known)
    step = np.linspace(0, len(known) - 1, min(len(known), MOST_PLACES)).round().astype(np.int64)
    chosen = known[step]
    degrees = coordinates.crs == DEGREES
    aspect = math.cos(math.radians((frame[2] + frame[3]) / 2)) if degrees else 1.0
    aspect = max(aspect, 0.01)
    return {
        "number": one.number,
        "snapshot": one.result.snapshot_id,
        "degrees": degrees,
        "frame": list(frame),
        "aspect": aspect,
        "km": (frame[1] - frame[0]) * aspect * KM_A_DEGREE if degrees else None,
        "nodes": [str(name) for name in snapshot.nodes.take(chosen).to_pylist()],
        "ids": ids_of_nodes(partition(one.members), snapshot)[chosen].tolist(),
        "x": _rounded(coordinates.x[chosen], frame[1] - frame[0]),
        "y": _rounded(coordinates.y[chosen], frame[3] - frame[2]),
        "unplaced": snapshot.n_nodes - len(known),
        "nodes_left_out": len(known) - len(chosen),
    }


def n_placed(snapshot: Snapshot | None) -> int:
    """Return the number of nodes whose place is known."""
    if snapshot is None or snapshot.coordinates is None:
        return 0
    return int(snapshot.coordinates.known.sum())


def _span(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, [OUTLIERS, 1 - OUTLIERS]).tolist()
    margin = MARGIN * (high - low) or max(1e-6, abs(low) * 1e-6)
    return low - margin, high + margin


def _rounded(values: NDArray[np.float64], span: float) -> list[float]:
    """Return values to a hundred-thousandth of the frame, which is finer than a pixel."""
    return [float(one) for one in values.round(5 - math.floor(math.log10(span)))]
