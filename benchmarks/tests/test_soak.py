"""A worker at its limit loses nothing and does not grow: benchmarks/soak.py, for some seconds."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.shared.soak_ends import ROW, Offer, Plan
from benchmarks.soak import SAMPLE, Soaked, draw, soak, write_samples
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from tests.testbed.brokers import Broker

GROWTH_MIB = 32.0


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Some days of small graphs, in a form that is read as AS topologies are."""
    tables = []
    for number in range(8):
        row, column = generate_lfr(
            np.random.default_rng(number), LfrSettings(600 + 50 * number)
        ).edges
        day = [date(2026, 1, 1) + timedelta(days=number)] * len(row)
        tables.append(pa.table({"window_start": day, "src": row, "dst": column}))
    pq.write_table(pa.concat_tables(tables), tmp_path / "days.parquet")
    return tmp_path / "days.parquet"


@pytest.mark.kafka
def test_a_worker_at_its_limit(kafka: Broker, topic_name: str, days: Path, tmp_path: Path) -> None:
    plan = Plan(
        days, tmp_path, kafka.bootstrap_servers, graph=topic_name, seconds=6.0, calibrate_s=2.0
    )
    one = soak(plan)
    assert one.complaints == []  # so the lag has drained, too
    assert len(one.sent) > 100
    half = one.steady["detector_mib"][len(one.steady) // 2 :]
    assert half.max() - half[0] < GROWTH_MIB
    write_samples(one, tmp_path / "samples.csv")
    draw(one, tmp_path / "soak.png")


def soaked(sent: list[int], seen: list[int], status: int = 0) -> Soaked:
    """Sent once a second, each seen half a second later; memory grows by 1 MiB a second."""
    samples = np.zeros(len(sent), SAMPLE)
    samples["time"] = samples["detector_mib"] = sent
    return Soaked(
        Offer(sustained=1.0, rate=1.0, first=0, began=0.0),
        samples,
        np.array([(number, number) for number in sent], ROW),
        np.array([(number, number + 0.5) for number in seen], ROW),
        status,
    )


@pytest.mark.parametrize(
    ("seen", "status", "complaint"),
    [
        ([0, 1, 3], 0, "1 snapshots were lost, such as [2]"),
        ([0, 1, 2, 3, 1], 0, "1 were seen twice, such as [1]"),
        ([0, 1, 2, 3], 143, "the detector ended with status 143"),
    ],
)
def test_a_loss_a_repetition_and_a_bad_end_are_told(
    seen: list[int], status: int, complaint: str
) -> None:
    assert soaked([0, 1, 2, 3], seen, status).complaints == [complaint]


def test_latency_and_slope_are_those_of_the_samples() -> None:
    one = soaked(list(range(40)), list(range(40)))
    assert one.latency_s.tolist() == [0.5] * 40
    assert one.slope("detector").per_hour == pytest.approx(3600)
