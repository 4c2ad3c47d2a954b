"""Fleets that report positions: at each tick, a graph of the taxis that are close together.

J. Yuan et al., "T-Drive: Driving Directions Based on Taxi Trajectories", GIS 2010; and the ICD
paper, which joins a taxi with its 50 nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.spatial import cKDTree

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.coordinates import DEGREES
from stream_icd.core.errors import BadSettings, BadSnapshot, LimitExceeded
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import snapshot_id
from stream_icd.sources.timed_rows import Number
from stream_icd.sources.windows import Hopping

_EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the Earth (IUGG), metres."""

_MAX_PAIRS = 50_000_000


def _on_unit_sphere(latitude: Floats, longitude: Floats) -> Floats:
    """Convert degrees to points (n, 3) on the unit sphere.

    Straight-line distances increase with great-circle distances, also across the date line and at
    the poles, so an index of these points is valid for the sphere.
    """
    phi, theta = np.radians(latitude), np.radians(longitude)
    return np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)], axis=1)


def _nearest_pairs(points: Floats, k: int) -> Ids:
    """Return pairs (2, E) where either is among the other's `k` nearest; each once, low < high."""
    n = len(points)
    k = min(k, n - 1)
    if k < 1:
        return np.empty((2, 0), np.int64)
    _, nearest = cKDTree(points).query(points, k + 1)  # (n, k + 1), itself among them
    itself = nearest == np.arange(n)[:, None]
    # If more than k others have the same position, a point may not be among its own nearest.
    itself[~itself.any(axis=1), -1] = True
    return _each_once(np.repeat(np.arange(n), k), nearest[~itself], n)


def _pairs_within(points: Floats, radius_m: float) -> Ids:
    """Return pairs (2, E) at most `radius_m` apart along the surface; each once, low < high.

    Raises `LimitExceeded` if there would be more than `_MAX_PAIRS`.
    """
    tree = cKDTree(points)
    angle = min(radius_m / _EARTH_RADIUS_M, np.pi)
    chord = 2 * np.sin(angle / 2)
    n_pairs = (int(tree.count_neighbors(tree, chord)) - len(points)) // 2
    if n_pairs > _MAX_PAIRS:
        raise LimitExceeded(
            f"{n_pairs} pairs lie within {radius_m:g} m; the limit is {_MAX_PAIRS}: lower --radius"
        )
    pairs = tree.query_pairs(chord, output_type="ndarray")
    return _each_once(pairs[:, 0], pairs[:, 1], len(points))


def _each_once(start: Ids, end: Ids, n: int) -> Ids:
    # Sort, because numpy.unique hashes and takes ten times as long on these keys.
    keys = np.sort(np.minimum(start, end) * n + np.maximum(start, end))
    first = np.diff(keys, prepend=-1) > 0
    return np.stack(np.divmod(keys[first], n))


@dataclass(frozen=True, slots=True)
class TaxiSettings:
    """How position fixes become snapshots.

    Raises `BadSettings` if a value is negative, nothing joins taxis, or `stale` is below `tick`.
    """

    tick: timedelta  # from one snapshot to the next; ticks lie at its multiples since 1970
    stale: timedelta  # ignore fixes older than this at a tick
    nearest: int = 50  # join taxis if either is among this many nearest of the other; 0 for none
    radius_m: float = 0.0  # join taxis at most this many metres apart; 0 for none
    sample: int | None = None  # use so many random active taxis, the same while they are active
    seed: int = 0
    lateness: timedelta = timedelta(0)  # how far behind the newest fix another may arrive
    graph: str = "taxi"
    coordinates: bool = True

    def __post_init__(self) -> None:
        if self.nearest < 0 or self.radius_m < 0 or not (self.nearest or self.radius_m):
            raise BadSettings(
                f"nearest={self.nearest}, radius_m={self.radius_m:g}: give at least one, above 0"
            )
        if self.sample is not None and self.sample < 2:
            raise BadSettings(f"sample={self.sample}; an edge needs two taxis")
        if self.stale < self.tick:
            raise BadSettings(
                f"stale ({self.stale}) is below tick ({self.tick}): some positions would never "
                "be used"
            )

    @property
    def source(self) -> str:
        """Source URI (`ce_source`): different ways to join taxis are different sources."""
        joined = f"urn:stream_icd:taxi?nearest={self.nearest}&radius={self.radius_m:g}"
        return joined if self.sample is None else f"{joined}&sample={self.sample}&seed={self.seed}"

    @property
    def rule(self) -> Hopping:
        """Windows of length `stale` that end at ticks."""
        return Hopping(self.stale, self.tick, align=-self.stale)

    @staticmethod
    def degrees(lat: str, lon: str) -> dict[str, Number]:
        """Return what a table of fixes has besides ids, given the names of its columns; checked."""
        return {
            "lat": (lat, lambda values: abs(values) <= 90),
            "lon": (lon, lambda values: abs(values) <= 180),
        }

    def snapshot(self, window: Window, rows: pa.Table) -> Snapshot | None:
        """Return the graph at a tick: each taxi is at the position of its last fix.

        `rows` are fixes, `taxi`, `lat` and `lon`, in time order. None if no two taxis are close;
        `LimitExceeded` if too many pairs are.
        """
        taxis, last = _last_fixes(rows["taxi"])
        if self.sample is not None and self.sample < len(taxis):
            chosen = _sample(taxis, self.sample, self.seed)
            taxis, last = taxis.take(pa.array(chosen)), last[chosen]
        lat, lon = (rows[name].to_numpy()[last].astype(np.float64) for name in ("lat", "lon"))
        points = _on_unit_sphere(lat, lon)
        pairs = _nearest_pairs(points, self.nearest)
        if self.radius_m:
            pairs = np.concatenate([pairs, _pairs_within(points, self.radius_m)], axis=1)
        low, high = (taxis.take(pa.array(ends)) for ends in pairs)
        nowhere = np.full(len(low), np.nan)
        try:
            return snapshot_from_pairs(
                pa.concat_arrays([low, taxis]),
                pa.concat_arrays([high, pa.nulls(len(taxis), taxis.type)]),
                graph=self.graph,
                id=snapshot_id(self.graph, window),
                window=window,
                source=self.source,
                x=np.concatenate([nowhere, lon]) if self.coordinates else None,
                y=np.concatenate([nowhere, lat]) if self.coordinates else None,
                crs=DEGREES if self.coordinates else "",
            )
        except BadSnapshot:  # fixes are already checked
            return None


def _last_fixes(taxi: pa.ChunkedArray) -> tuple[pa.Array, Ids]:
    """Return the ids of the taxis, ascending, and the row of the last fix of each."""
    encoded = taxi.combine_chunks().dictionary_encode()
    last = np.empty(len(encoded.dictionary), np.int64)
    # For equal indices, the last assignment wins.
    last[encoded.indices.to_numpy()] = np.arange(len(taxi))
    by_id = pc.sort_indices(encoded.dictionary)
    return encoded.dictionary.take(by_id), last[by_id.to_numpy()]


def _sample(taxis: pa.Array, size: int, seed: int) -> Ids:
    """Return the `size` taxis whose ids, hashed with the seed, come first; ascending."""
    key = seed.to_bytes(8, "little")
    hashed = [
        blake2b(str(taxi).encode(), key=key, digest_size=8).digest() for taxi in taxis.to_pylist()
    ]
    return np.sort(np.argsort(np.array(hashed), kind="stable")[:size])
