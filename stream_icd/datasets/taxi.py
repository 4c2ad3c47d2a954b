"""Fleets that report positions: at each tick, a graph of the taxis that are close together.

J. Yuan et al., "T-Drive: Driving Directions Based on Taxi Trajectories", GIS 2010; and the ICD
paper, which joins a taxi with its 50 nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_icd.arrays import Floats
from stream_icd.coordinates import DEGREES
from stream_icd.datasets.proximity import nearest_pairs, on_unit_sphere, pairs_within
from stream_icd.errors import BadSettings, BadSnapshot
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.durations import snapshot_id
from stream_icd.sources.source import Count, NeverStop, Source, Stop, count_nothing
from stream_icd.sources.tables.timed_rows import Columns
from stream_icd.sources.tables.values import IdKind, Mask, TimeUnit
from stream_icd.sources.windows import Hopping, OnLate, Quiet, TimedRows, cut_windows


@dataclass(frozen=True, slots=True)
class TaxiSettings:
    """How position fixes become snapshots.

    Attributes:
        tick: time from one snapshot to the next; ticks lie at its multiples since 1970.
        stale: ignore fixes older than this at a tick.
        nearest: join two taxis if either is among this many nearest of the other; 0 for none.
        radius_m: join two taxis at most this many metres apart; 0 for none.
        sample: use this many random active taxis, the same ones while they are active.
        seed: random seed of the sample.
        lateness: how far behind the newest fix another may arrive.
        graph: name of the graph.
        coordinates: put the position of each taxi into the snapshot.

    Raises:
        BadSettings: a value is negative, nothing joins taxis, or `stale` is below `tick`.
    """

    tick: timedelta
    stale: timedelta
    nearest: int = 50
    radius_m: float = 0.0
    sample: int | None = None
    seed: int = 0
    lateness: timedelta = timedelta(0)
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


def taxi_columns(
    time: str,
    taxi: str,
    lat: str,
    lon: str,
    *,
    time_unit: TimeUnit = "s",
    zone: str = "UTC",
    ids: IdKind = "auto",
) -> Columns:
    """Return the columns of a table of fixes, given their names; degrees are checked.

    Raises:
        BadSettings: the time zone is unknown.
    """
    degrees: dict[str, tuple[str, Callable[[Floats], Mask]]] = {
        "lat": (lat, lambda given: abs(given) <= 90),
        "lon": (lon, lambda given: abs(given) <= 180),
    }
    return Columns(time, {"taxi": taxi}, degrees, time_unit, zone, ids)


def taxi_snapshots(
    arrivals: Iterable[TimedRows | Quiet],
    settings: TaxiSettings,
    *,
    n_streams: int = 1,
    after: datetime | None = None,
    on_late: OnLate,
    count: Count = count_nothing,
    stop: Stop = NeverStop(),
) -> Source:
    """Yield a snapshot for each tick at which two taxis were active, in order.

    Args:
        arrivals: rows with `taxi`, `lat` and `lon` (degrees).
        after: skip ticks up to and including this time: they were already made.
        count: called with `small_windows`, ticks without an edge.
    """
    windows = cut_windows(
        arrivals,
        settings.rule,
        lateness=settings.lateness,
        n_streams=n_streams,
        on_late=on_late,
        stop=stop,
    )
    return Source(None, _snapshots(windows, settings, after, count))


def _snapshots(
    windows: Iterator[tuple[Window, pa.Table]],
    settings: TaxiSettings,
    after: datetime | None,
    count: Count,
) -> Iterator[tuple[Snapshot, None]]:
    for window, fixes in windows:
        if after is not None and window.end <= after:
            continue
        try:
            yield taxi_snapshot(window, fixes, settings), None
        except BadSnapshot:  # fixes are already checked: no two taxis are close
            count("small_windows", 1)


def taxi_snapshot(window: Window, fixes: pa.Table, settings: TaxiSettings) -> Snapshot:
    """Return the graph of nearby taxis; each taxi is at the position of its last fix.

    Args:
        fixes: `taxi`, `lat`, `lon`, in time order.

    Raises:
        BadSnapshot: no two taxis are close.
        LimitExceeded: too many pairs are close.
    """
    taxis, last = _last_fixes(fixes["taxi"])
    if settings.sample is not None and settings.sample < len(taxis):
        chosen = _sample(taxis, settings.sample, settings.seed)
        taxis, last = taxis.take(pa.array(chosen)), last[chosen]
    lat, lon = (fixes[name].to_numpy()[last].astype(np.float64) for name in ("lat", "lon"))
    points = on_unit_sphere(lat, lon)
    pairs = np.empty((2, 0), np.int64)
    if settings.nearest:
        pairs = nearest_pairs(points, settings.nearest)
    if settings.radius_m:
        pairs = np.concatenate([pairs, pairs_within(points, settings.radius_m)], axis=1)
    low, high = (taxis.take(pa.array(ends)) for ends in pairs)
    nowhere = np.full(len(low), np.nan)
    return snapshot_from_pairs(
        pa.concat_arrays([low, taxis]),
        pa.concat_arrays([high, pa.nulls(len(taxis), taxis.type)]),
        graph=settings.graph,
        id=snapshot_id(settings.graph, window),
        window=window,
        source=settings.source,
        x=np.concatenate([nowhere, lon]) if settings.coordinates else None,
        y=np.concatenate([nowhere, lat]) if settings.coordinates else None,
        crs=DEGREES if settings.coordinates else "",
    )


def _last_fixes(taxi: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the ids of the taxis, ascending, and the row of the last fix of each."""
    encoded = taxi.combine_chunks().dictionary_encode()
    last = np.empty(len(encoded.dictionary), np.int64)
    # For equal indices, the last assignment wins.
    last[encoded.indices.to_numpy()] = np.arange(len(taxi))
    by_id = pc.sort_indices(encoded.dictionary)
    return encoded.dictionary.take(by_id), last[by_id.to_numpy()]


def _sample(taxis: pa.Array, size: int, seed: int) -> NDArray[np.int64]:
    """Return the `size` taxis whose ids, hashed with the seed, come first; ascending."""
    key = seed.to_bytes(8, "little")
    hashed = [
        blake2b(str(taxi).encode(), key=key, digest_size=8).digest() for taxi in taxis.to_pylist()
    ]
    return np.sort(np.argsort(np.array(hashed), kind="stable")[:size])
