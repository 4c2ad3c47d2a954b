"""The graphs that methods are compared on: planted ones by seed, real ones from files.

Seeds from `TEST_SEED` on are for reported figures only; whatever is learned or chosen takes its
graphs from `TRAINING_SEED` on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.spatial import cKDTree

from stream_icd.core.errors import SourceNotFound
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

TRAINING_SEED, TEST_SEED = 1000, 9000

N_TAXIS, N_NEAREST, N_TAXI_GRAPHS = 1279, 50, 20


@dataclass(frozen=True, eq=False)
class BenchmarkGraph:
    """One graph: its adjacency, and its true communities (n,) where they are known."""

    adjacency: csr_array
    truth: NDArray[np.int32] | None = None


@dataclass(frozen=True)
class DataSet:
    """A named family of graphs, in a fixed order."""

    name: str
    test_graphs: Callable[[], Iterator[BenchmarkGraph]]
    training_graphs: Callable[[], Iterator[BenchmarkGraph]] | None = None
    past_graphs: Callable[[], Iterator[BenchmarkGraph]] | None = None
    """Where they are real: those right before the test graphs, the newest first."""

    draw: Callable[[np.random.Generator], PlantedGraph] | None = None
    """Makes another graph of the family, where they are planted."""


def data_sets(folder: Path) -> dict[str, DataSet]:
    """All data sets by name; the files of the real ones are in `folder`, read when asked for."""
    planted = {
        "GN.3": partial(_gn, p_in=0.3),
        "GN.4": partial(_gn, p_in=0.4),
        "L(f,.3)": partial(_lfr, mixing=0.3, most_nodes=5000),
        "L(f,.6)": partial(_lfr, mixing=0.6, most_nodes=5000),
        "L(n,.3)": partial(_lfr, mixing=0.3, most_nodes=6000),
        "L(n,.6)": partial(_lfr, mixing=0.6, most_nodes=6000),
    }
    found = [
        DataSet(
            name,
            partial(planted_graphs, draw, TEST_SEED),
            partial(planted_graphs, draw, TRAINING_SEED),
            draw=draw,
        )
        for name, draw in planted.items()
    ]
    taxi = folder / "tdrive_1h.parquet"
    found.append(
        DataSet(
            "Taxi",
            partial(_taxi_graphs, taxi),
            past_graphs=partial(_taxi_graphs, taxi, TRAINING_SEED),
        )
    )
    for name, file, least_nodes in (
        ("Reddit", "reddit_binary.parquet", 500),
        ("AS", "as733.parquet", 0),
        ("Enron", "enron_monthly.parquet", 0),
    ):
        test, past = (partial(one, folder / file, least_nodes) for one in (_newest, _older))
        found.append(DataSet(name, test, past_graphs=past))
    return {data_set.name: data_set for data_set in found}


def planted_graphs(
    draw: Callable[[np.random.Generator], PlantedGraph], first_seed: int
) -> Iterator[BenchmarkGraph]:
    """Graphs of seeds first_seed, first_seed + 1 and so on, without end."""
    seed = first_seed
    while True:
        planted = draw(np.random.default_rng(seed))
        yield BenchmarkGraph(planted.adjacency(), planted.communities)
        seed += 1


def _gn(rng: np.random.Generator, p_in: float) -> PlantedGraph:
    return generate_gn(rng, p_in=p_in)


def _lfr(rng: np.random.Generator, mixing: float, most_nodes: int) -> PlantedGraph:
    """L(f, ·) has 5,000 nodes; L(n, ·) a number drawn from 5,000 to 6,000."""
    n_nodes = int(rng.integers(5000, most_nodes, endpoint=True))
    return generate_lfr(rng, LfrSettings(n_nodes=n_nodes, mixing=mixing))


def _newest(path: Path, least_nodes: int) -> Iterator[BenchmarkGraph]:
    """The last tenth of a file's snapshots among those of at least that many nodes."""
    graphs = _of_at_least(path, least_nodes)
    return iter(graphs[-max(len(graphs) // 10, 1) :])


def _older(path: Path, least_nodes: int) -> Iterator[BenchmarkGraph]:
    """Those before `_newest`, backwards."""
    graphs = _of_at_least(path, least_nodes)
    return reversed(graphs[: -max(len(graphs) // 10, 1)])


def _of_at_least(path: Path, least_nodes: int) -> list[BenchmarkGraph]:
    return [
        snapshot for snapshot in all_snapshots(path) if snapshot.adjacency.shape[0] >= least_nodes
    ]


def all_snapshots(path: Path) -> list[BenchmarkGraph]:
    """All snapshots of a file, in their order."""
    table = _read(path).sort_by("snapshot")
    snapshot = table["snapshot"].to_numpy()
    cuts = np.flatnonzero(np.diff(snapshot, prepend=snapshot[0] - 1, append=snapshot[-1] + 1))
    graphs = []
    for start, end in pairwise(cuts):
        rows = table.slice(start, end - start)
        weights = rows["weight"].to_numpy() if "weight" in rows.column_names else None
        graphs.append(_graph(rows["src"].to_numpy(), rows["dst"].to_numpy(), weights))
    return graphs


def _taxi_graphs(path: Path, first_seed: int = TEST_SEED) -> Iterator[BenchmarkGraph]:
    """Random taxis where they were last seen, joined where either is among the other's nearest."""
    fixes = _read(path).sort_by("t")
    taxi = fixes["taxi"].to_numpy()
    _, from_the_end = np.unique(taxi[::-1], return_index=True)
    last = len(taxi) - 1 - from_the_end
    degrees = np.stack([fixes["lat"].to_numpy()[last], fixes["lon"].to_numpy()[last]], axis=1)
    metres = degrees * [1.0, np.cos(np.radians(np.median(degrees[:, 0])))]  # up to a factor
    for seed in range(first_seed, first_seed + N_TAXI_GRAPHS):
        chosen = np.random.default_rng(seed).choice(len(metres), N_TAXIS, replace=False)
        _, nearest = cKDTree(metres[chosen]).query(metres[chosen], N_NEAREST + 1)
        sources = np.repeat(np.arange(N_TAXIS), N_NEAREST + 1)
        pairs = np.stack([sources, nearest.ravel()])
        pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
        yield _graph(pairs[0], pairs[1], None)


def _graph(
    sources: NDArray[np.int64], targets: NDArray[np.int64], weights: NDArray[np.float64] | None
) -> BenchmarkGraph:
    ids, ends = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    rows, columns = ends[: len(sources)], ends[len(sources) :]
    values = np.ones(len(rows)) if weights is None else weights.astype(np.float64)
    half = coo_array((values, (rows, columns)), (len(ids), len(ids)))
    adjacency = (half + half.T).tocsr()
    adjacency.sort_indices()
    return BenchmarkGraph(adjacency)


def _read(path: Path) -> pa.Table:
    if not path.is_file():
        raise SourceNotFound(f"{path} is missing: give the folder of the real data with --data")
    return pq.read_table(path)
