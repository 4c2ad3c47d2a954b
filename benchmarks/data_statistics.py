"""What each producer makes of the real data and of the generators, beside the paper's table.

python benchmarks/data_statistics.py --data FOLDER > docs/measured/data.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_icd.core.snapshot import Window
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.sources.datasets.taxi import TaxiSettings
from stream_icd.sources.generated import independent_gn, independent_lfr
from stream_icd.sources.source import Source
from stream_icd.sources.tables import read_rows
from stream_icd.sources.timed_rows import Columns, EventSettings
from stream_icd.sources.windows import Hopping, TimedRows, windowed_snapshots

HOUR = timedelta(hours=1)
N_GENERATED = 20
N_SAMPLES = 20


@dataclass(frozen=True)
class DataSet:
    """One line of the table: the paper's figures, and how ours are made."""

    name: str
    paper: str
    command: str
    open: Callable[[Path], Iterator[Source]]


def stop(problem: object) -> None:
    """Nothing here should be bad or late."""
    raise SystemExit(f"unexpected: {problem}")


def as_733(data: Path) -> Iterator[Source]:
    yield read_as_topology(data / "as733.parquet")


def taxis(data: Path) -> Iterator[Source]:
    columns = Columns(
        "t", {"taxi": "taxi"}, TaxiSettings.degrees("lat", "lon"), zone="Asia/Shanghai"
    )
    for seed in range(N_SAMPLES):
        rows = columns.read(read_rows(data / "tdrive_1h.parquet", columns.names, stop), stop)
        settings = TaxiSettings(HOUR, HOUR, sample=1279, seed=seed)
        yield windowed_snapshots(rows, settings, on_late=stop)


def events(
    data: Path, file: str, time_column: str, window: timedelta, least_nodes: int
) -> Iterator[Source]:
    columns = Columns(time_column, {"src": "src", "dst": "dst"})
    rows = columns.read(read_rows(data / file, columns.names, stop), stop)
    batches = (batch for batch in rows if isinstance(batch, TimedRows))
    settings = EventSettings("events", Hopping(window, window), least_nodes=least_nodes)
    yield windowed_snapshots(batches, settings, on_late=stop)


def gn(_data: Path, p_in: float) -> Iterator[Source]:
    yield independent_gn(0, N_GENERATED, p_in=p_in)


def lfr(_data: Path, mixing: float, most_nodes: int) -> Iterator[Source]:
    yield independent_lfr(0, N_GENERATED, LfrSettings(mixing=mixing), most_nodes=most_nodes)


LFR = "produce lfr --drift none --limit 20"
MAIL = "produce events email_eu_temporal.parquet"
DATA_SETS = [
    DataSet("GN 0.3", "N 5,000; K 250; E ≈ 49,250", "produce gn --limit 20", partial(gn, p_in=0.3)),
    DataSet(
        "GN 0.4",
        "N 5,000; K 250; E ≈ 49,000",
        "produce gn --p-in 0.4 --limit 20",
        partial(gn, p_in=0.4),
    ),
    DataSet(
        "L(f, 0.3)",
        "N 5,000; K ≈ 80; E ≈ 24,000",
        LFR,
        partial(lfr, mixing=0.3, most_nodes=5000),
    ),
    DataSet(
        "L(f, 0.6)",
        "N 5,000; K ≈ 80; E ≈ 24,000",
        f"{LFR} --mixing 0.6",
        partial(lfr, mixing=0.6, most_nodes=5000),
    ),
    DataSet(
        "L(n, 0.3)",
        "N 5,000 to 6,000",
        f"{LFR} --most-nodes 6000",
        partial(lfr, mixing=0.3, most_nodes=6000),
    ),
    DataSet(
        "L(n, 0.6)",
        "N 5,000 to 6,000",
        f"{LFR} --most-nodes 6000 --mixing 0.6",
        partial(lfr, mixing=0.6, most_nodes=6000),
    ),
    DataSet(
        "Taxi",
        "N 1,279; E 38,554 / 40,171 / 39,291",
        "produce taxi tdrive_1h.parquet --zone Asia/Shanghai --tick 1h --sample 1279 --seed 0",
        taxis,
    ),
    DataSet(
        "AS",
        "T 733; N 103 / 6,474 / 4,183; E 487 / 26,467 / 16,324",
        "produce as as733.parquet",
        as_733,
    ),
    DataSet(
        "Reddit",
        "T 1,870; N 501 / 3,648 / 946",
        "produce events reddit_binary.parquet --time snapshot --window 1s --least-nodes 500",
        partial(
            events,
            file="reddit_binary.parquet",
            time_column="snapshot",
            window=timedelta(seconds=1),
            least_nodes=500,
        ),
    ),
    DataSet(
        "Enron",
        "T 410; N 502 / 3,261 / 1,048",
        "produce events enron_monthly.parquet --time window_start --window 1d",
        partial(
            events,
            file="enron_monthly.parquet",
            time_column="window_start",
            window=timedelta(days=1),
            least_nodes=2,
        ),
    ),
    DataSet(
        "email-Eu",
        "(stands in for Enron's daily windows)",
        f"{MAIL} --window 3d --least-nodes 500",
        partial(
            events,
            file="email_eu_temporal.parquet",
            time_column="t",
            window=timedelta(days=3),
            least_nodes=500,
        ),
    ),
]

INTRODUCTION = """# Data sets

For those who repeat the paper's experiments: the data sets used here, compared with those of the
paper, and the command that makes each. Made by `python -m benchmarks.data_statistics --data
FOLDER`; run it again after changing a producer.
"""
NOTES = """
T is the number of snapshots. N (nodes) and E (undirected edges) are minimum / maximum / mean. A
figure that is missing in the column "paper" is not in the paper's table, as far as we have it.

- **AS** is the paper's own data. The paper's E counts each edge in both directions, and self
  loops; column E counts each edge once.
- **Taxi**: 20 samples of 1,279 taxis that were active in one hour; the hours of the paper are not
  public. Two taxis are joined if one is among the 50 nearest of the other.
- **Reddit** is a public data set like that of the paper. Its threads have no order in time, so
  their numbers are used as seconds. Its documentation counts 384 graphs of 500 nodes or more; one
  of them has a node without an edge, which an edge list does not contain.
- **Enron** has monthly windows, as in its public form. The paper uses shorter windows, which
  **email-Eu** in windows of three days replaces.
- **GN** and **LFR**: 20 graphs with seed 0, from the project's own generators.

The real data have their owners' terms and are not part of the project. `stream-icd data list`
shows which of them can be downloaded, and `stream-icd data fetch NAME` downloads one.
"""


def spread(numbers: list[int]) -> str:
    if min(numbers) == max(numbers):
        return f"{numbers[0]:,}"
    return f"{min(numbers):,} / {max(numbers):,} / {round(np.mean(numbers)):,}"


def row(data_set: DataSet, folder: Path) -> str:
    snapshots = [s for source in data_set.open(folder) for s, _ in source.snapshots]
    nodes = spread([snapshot.n_nodes for snapshot in snapshots])
    edges = spread([snapshot.n_edges for snapshot in snapshots])
    cells = (data_set.name, data_set.paper, f"{len(snapshots):,}", nodes, edges)
    return f"| {' | '.join(cells)} | `{data_set.command}` |"


def taxi_seconds(n_taxis: int) -> float:
    """The best of five snapshots of so many taxis, 50 nearest, in seconds."""
    rng = np.random.default_rng(0)
    fixes = pa.table(
        {
            "taxi": np.arange(n_taxis),
            "lat": rng.normal(39.9, 0.1, n_taxis),
            "lon": rng.normal(116.4, 0.1, n_taxis),
        }
    )
    start = datetime(2008, 2, 2, tzinfo=UTC)
    took = []
    for _ in range(5):
        began = time.process_time()
        TaxiSettings(HOUR, HOUR).snapshot(Window(start, start + HOUR), fixes)
        took.append(time.process_time() - began)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    folder = parser.parse_args().data
    print(INTRODUCTION)
    print("| data | paper | T | N | E | made by `stream-icd …` |")
    print("| --- | --- | --- | --- | --- | --- |")
    for data_set in DATA_SETS:
        print(row(data_set, folder), flush=True)
    print(NOTES)
    print(
        f"A snapshot of 10,000 taxis (their 50 nearest, a quarter of a million edges) takes\n"
        f"{taxi_seconds(10_000):.2f} s on one core of the machine that wrote this page."
    )


if __name__ == "__main__":
    main()
