"""Find nearby points on the Earth's surface with a spatial index, never by all pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from stream_icd.arrays import Floats
from stream_icd.errors import LimitExceeded

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), metres."""

MAX_PAIRS = 50_000_000

Pairs = NDArray[np.int64]


def on_unit_sphere(latitude: Floats, longitude: Floats) -> Floats:
    """Convert degrees to points (n, 3) on the unit sphere.

    Straight-line distances increase with great-circle distances, also across the date line and at
    the poles, so an index of these points is valid for the sphere.
    """
    phi, theta = np.radians(latitude), np.radians(longitude)
    return np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)], axis=1)


def nearest_pairs(points: Floats, k: int) -> Pairs:
    """Return pairs (2, E) where either is among the other's `k` nearest; each once, low < high."""
    n = len(points)
    k = min(k, n - 1)
    if k < 1:
        return np.empty((2, 0), np.int64)
    _, found = cKDTree(points).query(points, k + 1)  # (n, k + 1), itself among them
    itself = found == np.arange(n)[:, None]
    # If more than k others have the same position, a point may not be among its own nearest.
    itself[~itself.any(axis=1), -1] = True
    others = found[~itself].reshape(n, k)
    return _each_once(np.repeat(np.arange(n), k), others.ravel(), n)


def pairs_within(points: Floats, radius_m: float) -> Pairs:
    """Return pairs (2, E) at most `radius_m` apart along the surface; each once, low < high.

    Raises:
        LimitExceeded: there would be more than `MAX_PAIRS`.
    """
    tree = cKDTree(points)
    angle = min(radius_m / EARTH_RADIUS_M, np.pi)
    chord = 2 * np.sin(angle / 2)
    n_pairs = (int(tree.count_neighbors(tree, chord)) - len(points)) // 2
    if n_pairs > MAX_PAIRS:
        raise LimitExceeded(
            f"{n_pairs} pairs lie within {radius_m:g} m; the limit is {MAX_PAIRS}: lower --radius"
        )
    pairs = tree.query_pairs(chord, output_type="ndarray")
    return _each_once(pairs[:, 0], pairs[:, 1], len(points))


def _each_once(one: Pairs, other: Pairs, n: int) -> Pairs:
    # Sort, because numpy.unique hashes and takes ten times as long on these keys.
    keys = np.sort(np.minimum(one, other) * n + np.maximum(one, other))
    first = np.diff(keys, prepend=-1) > 0
    return np.stack(np.divmod(keys[first], n))
