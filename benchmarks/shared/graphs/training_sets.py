"""Graphs of the paper's kinds to train on: small ones, and those of the paper's size.

On small graphs a step of training takes milliseconds on a CPU, and on those of full size seconds:
these need a GPU. Seeds and days of training, validation and test graphs do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import coo_array

from benchmarks.shared.graphs.data_sets import TEST_SEED, TRAINING_SEED
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

VALIDATION_SEED = 5000
SETS = ("GN.3", "L(f,.6)", "AS", "AS, shuffled")

N_TRAINING, N_VALIDATION, N_TEST = 400, 5, 10
FULL_VALIDATION, FULL_TEST = 3, 5

LEAST_LINKS = 5000
"""Days of AS-733 with fewer are incomplete."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """One kind of graphs, in three parts; all graphs are labelled.

    Attributes:
        preset: the paper's recipe for this kind.
        widths: the encoder's, an eighth of the paper's where it coarsens; None: the paper's.
        measure: "NMI" with the planted communities, or "modularity".
    """

    name: str
    preset: str
    widths: tuple[int, ...] | None
    measure: str
    training: Sequence[LabelledGraph]
    validation: Sequence[LabelledGraph]
    test: Sequence[LabelledGraph]


def small_sets(
    data: Path | None, n_training: int = N_TRAINING
) -> dict[str, Callable[[], TrainingSet]]:
    """Each kind by name, made when it is called; the Internet's only with the folder of its data.

    GN.3 has 600 nodes in 30 communities of 20, so as many links inside and outside of a
    community as with 5,000 nodes. L(f,.6) has 600 nodes, degrees up to 50 and communities of 10 to
    50. AS has the autonomous systems that are linked to one another on every complete day, as many
    columns, and a system's column is the same on every day; in "AS, shuffled" each day has its own
    order of nodes.
    """
    sizes = n_training, N_VALIDATION, N_TEST
    sets: dict[str, Callable[[], TrainingSet]] = {
        "GN.3": partial(_planted, "GN.3", "GN-0.3", (256, 128, 64), small_gn, sizes),
        "L(f,.6)": partial(_planted, "L(f,.6)", "L(f,0.6)", (512, 128, 64), small_lfr, sizes),
    }
    if data is not None:
        sets["AS"] = partial(_internet, "AS", data, n_training, shuffled=False)
        sets["AS, shuffled"] = partial(_internet, "AS, shuffled", data, n_training, shuffled=True)
    return sets


def full_sets(n_training: int = N_TRAINING) -> dict[str, Callable[[], TrainingSet]]:
    """The paper's GN.3 and L(f,.6), of 5,000 nodes, by name; each is made when it is called."""
    sizes = n_training, FULL_VALIDATION, FULL_TEST
    return {
        "GN.3": partial(_planted, "GN.3", "GN-0.3", None, full_gn, sizes),
        "L(f,.6)": partial(_planted, "L(f,.6)", "L(f,0.6)", None, full_lfr, sizes),
    }


def full_gn(rng: np.random.Generator) -> PlantedGraph:
    return generate_gn(rng, p_in=0.3)


def full_lfr(rng: np.random.Generator) -> PlantedGraph:
    return generate_lfr(rng, LfrSettings(mixing=0.6))


def small_gn(rng: np.random.Generator) -> PlantedGraph:
    return generate_gn(rng, 600, 30, p_in=0.3)


def small_lfr(rng: np.random.Generator) -> PlantedGraph:
    return generate_lfr(rng, LfrSettings(600, mixing=0.6, max_degree=50, max_community=50))


def _planted(
    name: str,
    preset: str,
    widths: tuple[int, ...] | None,
    draw: Callable[[np.random.Generator], PlantedGraph],
    sizes: tuple[int, int, int],
) -> TrainingSet:
    def graphs(first: int, n: int) -> list[LabelledGraph]:
        planted = (draw(np.random.default_rng(seed)) for seed in range(first, first + n))
        return [LabelledGraph(graph.adjacency(), graph.communities) for graph in planted]

    parts = map(graphs, (TRAINING_SEED, VALIDATION_SEED, TEST_SEED), sizes)
    return TrainingSet(name, preset, widths, "NMI", *parts)


def _internet(name: str, data: Path, n_training: int, *, shuffled: bool) -> TrainingSet:
    days = _days(data / "as733.parquet")
    core = _core(days)
    rng = np.random.default_rng(TRAINING_SEED)
    at, to = round(0.8 * len(days)), round(0.9 * len(days))
    parts = (
        [_of_day(day, core, rng.permutation(len(core)) if shuffled else None) for day in part]
        for part in map(
            _evenly,
            (days[:at], days[at:to], days[to:]),
            (n_training, N_VALIDATION, N_TEST),
        )
    )
    return TrainingSet(name, "AS", (len(core), 128, 64), "modularity", *parts)


Links = NDArray[np.int64]
"""The links of a day, `(2, n)`, by the numbers of the systems."""


def _days(path: Path) -> list[Links]:
    """The complete days, in order."""
    table = pq.read_table(path).sort_by("snapshot")
    links = np.stack([table["src"].to_numpy(), table["dst"].to_numpy()]).astype(np.int64)
    cuts = np.flatnonzero(np.diff(table["snapshot"].to_numpy())) + 1
    return [day for day in np.split(links, cuts, axis=1) if day.shape[1] >= LEAST_LINKS]


def _core(days: Sequence[Links]) -> NDArray[np.int64]:
    """The systems that each have a link to another of them on each of the days, ascending."""
    core = reduce(np.intersect1d, map(np.unique, days))
    while True:
        linked = reduce(np.intersect1d, (np.unique(_among(day, core)) for day in days))
        if len(linked) == len(core):
            return core
        core = linked


def _among(day: Links, core: NDArray[np.int64]) -> Links:
    return day[:, np.isin(day, core).all(axis=0) & (day[0] != day[1])]


def _evenly(days: Sequence[Links], n: int) -> list[Links]:
    return [days[index * len(days) // n] for index in range(n)]


def _of_day(day: Links, core: NDArray[np.int64], order: NDArray[np.int64] | None) -> LabelledGraph:
    """The links among the core, with communities of high modularity as labels, as in training."""
    ends = np.searchsorted(core, _among(day, core))
    if order is not None:
        ends = order[ends]
    pairs = np.unique(np.sort(ends, axis=0), axis=1)
    half = coo_array((np.ones(pairs.shape[1]), tuple(pairs)), (len(core), len(core)))
    adjacency = (half + half.T).tocsr()
    adjacency.sort_indices()
    return LabelledGraph(adjacency, find_communities(adjacency, BpParameters()))
