"""Who is close to whom: on the sphere, where each was last seen, and never by all pairs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from stream_icd.core.coordinates import DEGREES, Coordinates
from stream_icd.core.errors import BadSettings, LimitExceeded
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.sources.datasets import taxi
from stream_icd.sources.datasets.taxi import TaxiSettings
from stream_icd.sources.source import Source
from stream_icd.sources.tables import read_rows
from stream_icd.sources.timed_rows import Columns, sorted_by_time
from stream_icd.sources.windows import TimedRows, windowed_snapshots
from tests.real_data import real_data
from tests.sources.reading import write

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = Window(datetime(2008, 2, 2, tzinfo=UTC), datetime(2008, 2, 3, tzinfo=UTC))
FIX = TaxiSettings.degrees("lat", "lon")


def great_circle_m(lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.float64]:
    """All distances (n, n) by the haversine formula, another way than the code's."""
    phi, theta = np.radians(lat), np.radians(lon)
    half = np.sin((phi[:, None] - phi) / 2) ** 2
    half += np.cos(phi[:, None]) * np.cos(phi) * np.sin((theta[:, None] - theta) / 2) ** 2
    return 2 * 6_371_008.8 * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def all_over_the_world(n: int = 300) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(7)
    lat = np.concatenate([rng.uniform(-90, 90, n), [90, -90, 89.99, 0, 0]])
    lon = np.concatenate([rng.uniform(-180, 180, n), [0, 0, 180, 179.99, -179.99]])
    return lat, lon


def joined(lat: NDArray[np.float64], lon: NDArray[np.float64], **how: object) -> set[object]:
    """The pairs of taxis that a snapshot joins, if they are at these places."""
    table = pa.table({"taxi": np.arange(len(lat)), "lat": lat, "lon": lon})
    snapshot = TaxiSettings(MINUTE, MINUTE, **how).snapshot(DAY, table)  # type: ignore[arg-type]
    return set(zip(*snapshot.edges.tolist(), strict=True))


def test_the_nearest_and_a_radius_are_those_on_the_sphere() -> None:
    lat, lon = all_over_the_world()
    distances = great_circle_m(lat, lon)
    for radius_m in (5_000.0, 2e6, 3e7):
        near = np.argwhere(np.triu(distances <= radius_m, 1))
        assert joined(lat, lon, nearest=0, radius_m=radius_m) == set(map(tuple, near.tolist()))
    np.fill_diagonal(distances, np.inf)
    for k in (1, 5, 400):
        nearest = np.argsort(distances, axis=1)[:, : min(k, len(lat) - 1)]
        expected = {(min(i, j), max(i, j)) for i, row in enumerate(nearest.tolist()) for j in row}
        assert joined(lat, lon, nearest=k) == expected


def test_many_at_one_place_join_others_not_themselves_and_never_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = joined(np.full(20, 39.9), np.full(20, 116.4), nearest=3)
    assert {taxi for pair in pairs for taxi in pair} == set(range(20))  # type: ignore[attr-defined]
    monkeypatch.setattr(taxi, "_MAX_PAIRS", 100)
    with pytest.raises(LimitExceeded, match=r"190 pairs .* lower --radius"):
        joined(np.full(20, 39.9), np.full(20, 116.4), nearest=0, radius_m=10.0)


def fixes(*rows: tuple[float, int | str, float, float]) -> TimedRows:
    """(minute, taxi, lat, lon) as they arrived."""
    minutes, taxi, lat, lon = zip(*rows, strict=True)
    at = np.array([round(m * 60e6) for m in minutes], np.int64)
    table = pa.table({"taxi": taxi, "lat": lat, "lon": lon})
    return TimedRows("fixes", 0, np.arange(len(at)), at, table)


def snapshots(source: Source) -> list[Snapshot]:
    return [snapshot for snapshot, _ in source.snapshots]


def at_ticks(arrived: TimedRows, **options: object) -> list[Snapshot]:
    settings = TaxiSettings(**{"tick": MINUTE, "stale": 2 * MINUTE, **options})  # type: ignore[arg-type]
    return snapshots(windowed_snapshots([arrived], settings, on_late=lambda _: None))


def test_each_taxi_is_where_it_was_last_seen_and_stale_ones_are_gone() -> None:
    series = at_ticks(
        fixes(
            (0.1, "a", 39.90, 116.40),
            (0.2, "b", 39.90, 116.40),
            (0.3, "c", 39.99, 116.40),
            (1.1, "b", 39.99, 116.40),  # from a to c
            (2.5, "b", 39.99, 116.40),
        ),
        nearest=0,
        radius_m=100.0,
    )
    joined = [
        snapshot.nodes.take(pa.array(snapshot.edges[:, 0])).to_pylist() for snapshot in series
    ]
    # At 3 a and c were last seen 2.9 and 2.7 minutes ago.
    assert [snapshot.window.end.minute for snapshot in series] == [1, 2]
    assert joined == [["a", "b"], ["b", "c"]]
    assert [snapshot.nodes.to_pylist() for snapshot in series] == [["a", "b", "c"]] * 2
    for snapshot, latitudes in zip(
        series, ([39.9, 39.9, 39.99], [39.9, 39.99, 39.99]), strict=True
    ):
        place = Coordinates(np.full(3, 116.4), np.array(latitudes), DEGREES)
        assert snapshot.coordinates == place


def test_ticks_are_multiples_since_1970_and_name_their_window() -> None:
    (snapshot,) = at_ticks(fixes((7.5, 1, 39.9, 116.4), (7.6, 2, 39.9, 116.4)), tick=2 * MINUTE)
    assert snapshot.id == "taxi/1970-01-01T00:06:00Z/PT2M"
    assert snapshot.window.end.minute == 8
    both, stale = fixes((0.2, 1, 39.9, 116.4), (0.4, 2, 39.9, 116.4)), 1.5 * MINUTE
    (snapshot,) = at_ticks(both, stale=stale)
    assert (snapshot.window.end.minute, snapshot.window.start) == (1, snapshot.window.end - stale)
    (hidden,) = at_ticks(both, stale=stale, coordinates=False)
    assert (hidden.coordinates, hidden.content) == (None, snapshot.content)
    assert snapshot.coordinates is not None
    assert at_ticks(fixes((0, 1, 39.9, 116.4))) == []  # nobody is near


def test_nearest_and_radius_together_join_by_either() -> None:
    # Four in a row, their distances growing from 11 m to 22; the fifth is far away from all.
    offsets = (0.0, 1.0, 2.5, 4.5, 10_000)
    rows = [(0.0, taxi, 39.9 + 0.0001 * offset, 116.4) for taxi, offset in enumerate(offsets)]
    edges = [
        at_ticks(fixes(*rows), stale=MINUTE, nearest=nearest, radius_m=radius_m)[0].n_edges
        for nearest, radius_m in [(1, 0.0), (0, 40.0), (1, 40.0)]
    ]
    assert edges == [4, 5, 6]


def test_a_sample_is_random_of_its_size_and_stays_the_same() -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {"taxi": np.arange(500), "lat": rng.uniform(39, 40, 500), "lon": rng.uniform(116, 117, 500)}
    )

    def nodes(seed: int, rows: pa.Table = table) -> set[int]:
        settings = TaxiSettings(MINUTE, MINUTE, nearest=5, sample=100, seed=seed)
        snapshot = settings.snapshot(DAY, rows)
        return set(snapshot.nodes.to_pylist())

    assert len(nodes(0)) == 100
    assert nodes(0) == nodes(0)
    assert len(nodes(0) & nodes(1)) < 50
    # When some taxis leave, those that stay in the sample do.
    assert nodes(0) & set(range(400)) <= nodes(0, table.slice(0, 400))


def test_settings_that_make_no_sense_are_refused_and_others_are_other_sources() -> None:
    for wrong in (
        {"nearest": 0},
        {"nearest": -1},
        {"radius_m": -1.0},
        {"sample": 1},
        {"stale": MINUTE / 2},
        {"tick": timedelta(0)},
    ):
        with pytest.raises(BadSettings):
            TaxiSettings(**{"tick": MINUTE, "stale": MINUTE, **wrong}).rule  # type: ignore[arg-type] # noqa: B018
    ways = [{}, {"nearest": 10}, {"radius_m": 5.0}, {"sample": 10}, {"sample": 10, "seed": 1}]
    assert len({TaxiSettings(MINUTE, MINUTE, **way).source for way in ways}) == len(ways)  # type: ignore[arg-type]


def test_t_drives_own_form_is_read_from_its_folder(tmp_path: Path) -> None:
    files = {
        "1.txt": "1,2008-02-02 15:36:08,116.51,39.92\n1,2008-02-02 15:58:00,116.52,39.9\n",
        "2.txt": "2,2008-02-02 15:37:00,116.51,39.92\n",
        "3.txt": "",
    }
    write(tmp_path, files)
    columns = Columns("t", {"taxi": "taxi"}, FIX, zone="Asia/Shanghai")
    raw = read_rows(tmp_path, columns.names, pytest.fail, header=["taxi", "t", "lon", "lat"])
    rows = sorted_by_time(columns.read(raw, pytest.fail))
    settings = TaxiSettings(10 * MINUTE, 10 * MINUTE)
    (snapshot,) = snapshots(windowed_snapshots(rows, settings, on_late=pytest.fail))
    assert snapshot.window.end == datetime(2008, 2, 2, 7, 40, tzinfo=UTC)
    assert snapshot.nodes.to_pylist() == [1, 2]


def test_real_taxis_have_as_many_edges_as_the_papers() -> None:
    columns = Columns("t", {"taxi": "taxi"}, FIX, zone="Asia/Shanghai")
    raw = read_rows(real_data("tdrive_1h.parquet"), columns.names, pytest.fail)
    settings = TaxiSettings(HOUR, HOUR, sample=1279)
    rows = columns.read(raw, pytest.fail)
    (snapshot,) = snapshots(windowed_snapshots(rows, settings, on_late=pytest.fail))
    assert snapshot.n_nodes == 1279
    assert 38_554 <= snapshot.n_edges <= 40_171
    assert snapshot.window.end == datetime(2008, 2, 2, 9, tzinfo=UTC)  # 17:00 in Beijing
