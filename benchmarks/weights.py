"""What to make of edge weights: ways to read them, on weighted graphs, planted and real.

    python -m benchmarks.weights --data FOLDER

Writes docs/measured/weights.md. The way is chosen by the validation graphs (planted ones of seeds
from `TRAINING_SEED` on, the first half of each real set's windows); the tables are of the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import coo_array, csr_array
from scipy.spatial import cKDTree

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED, TRAINING_SEED
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.encoder.contract import encoder
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import modularity
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.registry.find import open_model

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

PAGE = Path(__file__).parent.parent / "docs" / "measured" / "weights.md"
N_NODES, MIXINGS = 3000, (0.3, 0.5)
HOUR, DAY, MONTH = 3600, 86400, 28 * 86400


def _capped(at: float, exponent: float = 0.5) -> Callable[[Floats], Floats]:
    return lambda w: np.minimum(w / np.median(w), at) ** exponent


WAYS: dict[str, Callable[[Floats], Floats]] = {
    "as they are": lambda w: w,
    "/ mean": lambda w: w,
    "log(1 + w / median)": lambda w: np.log1p(w / np.median(w)),
    "cube root": np.cbrt,
    "square root": np.sqrt,
    "cube root, cap 16": _capped(16, 1 / 3),
    "square root, cap 4": _capped(4),
    "square root, cap 8": _capped(8),
    "square root, cap 16": _capped(16),
    "ignored": np.ones_like,
}
"""Each is divided by its mean afterwards, but the first. A cap is in medians of the weights."""


def main() -> None:
    """Parse the command line, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--graphs", type=int, default=3, help="planted graphs of each kind")
    options = parser.parse_args()
    chosen_by = _table(
        _planted(TRAINING_SEED, options.graphs),
        _dense(TRAINING_SEED, options.graphs),
        _real(options.data, first=True),
    )
    reported = _table(
        _planted(TEST_SEED, options.graphs),
        _dense(TEST_SEED, options.graphs),
        _real(options.data, first=False),
    )
    page = f"{_page(chosen_by, reported)}\n{measured_at()}"
    Console().print(page, markup=False, soft_wrap=True)
    PAGE.write_text(page, encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Weighted:
    """A weighted graph: ids of its nodes, its truth where known, and the graph that follows it."""

    nodes: NDArray[np.int64]
    adjacency: csr_array
    truth: Labels | None = None
    following: Weighted | None = None


def _planted(first_seed: int, n_graphs: int) -> Iterator[tuple[str, Weighted]]:
    for mixing in MIXINGS:
        for kind, draw in KINDS.items():
            for seed in range(first_seed, first_seed + n_graphs):
                graph = generate_lfr(
                    np.random.default_rng(seed), LfrSettings(n_nodes=N_NODES, mixing=mixing)
                )
                inside = graph.communities[graph.edges[0]] == graph.communities[graph.edges[1]]
                weights = draw(np.random.default_rng([seed, 1]), inside)
                yield f"LFR {mixing}, {kind}", _weighted(graph, weights)


def _dense(first_seed: int, n_graphs: int) -> Iterator[tuple[str, Weighted]]:
    """All pairs joined, as in tables of correlations: only weights show communities."""
    for kind, draw in DENSE_KINDS.items():
        for seed in range(first_seed, first_seed + n_graphs):
            rng = np.random.default_rng(seed)
            truth = rng.integers(10, size=400).astype(np.int32)
            low, high = np.triu_indices(400, 1)
            adjacency = _symmetric(low, high, draw(rng, truth[low] == truth[high]), 400)
            yield f"dense, {kind}", Weighted(np.arange(400), adjacency, truth)


DENSE_KINDS: dict[str, Callable[[np.random.Generator, NDArray[np.bool_]], Floats]] = {
    "normal 0.2 ± 0.2, inside + 0.3": lambda rng, inside: rng.normal(0.2 + 0.3 * inside, 0.2).clip(
        1e-3, 1
    ),
    "normal 0.2 ± 0.2, inside + 0.15": lambda rng, inside: rng.normal(
        0.2 + 0.15 * inside, 0.2
    ).clip(1e-3, 1),
    "lognormal, twice inside": lambda rng, inside: rng.lognormal(size=len(inside)) * (1 + inside),
    "exponential, twice inside": lambda rng, inside: (
        rng.exponential(size=len(inside)) * (1 + inside)
    ),
}


def _times(inside: NDArray[np.bool_], factor: float) -> Floats:
    return np.where(inside, factor, 1.0)


KINDS: dict[str, Callable[[np.random.Generator, NDArray[np.bool_]], Floats]] = {
    "no weights": lambda _, inside: np.ones(len(inside)),
    "exponential": lambda rng, inside: rng.exponential(size=len(inside)),
    "exponential, twice inside": lambda rng, inside: (
        rng.exponential(size=len(inside)) * _times(inside, 2)
    ),
    "exponential, 4 times inside": lambda rng, inside: (
        rng.exponential(size=len(inside)) * _times(inside, 4)
    ),
    "counts, mean 4 inside, 2 outside": lambda rng, inside: rng.geometric(
        1 / (2 * _times(inside, 2))
    ).astype(np.float64),
    "Pareto 1.2": lambda rng, inside: rng.pareto(1.2, len(inside)) + 1,
    "Pareto 1.2, twice inside": lambda rng, inside: (
        (rng.pareto(1.2, len(inside)) + 1) * _times(inside, 2)
    ),
    "Pareto 0.8, twice inside": lambda rng, inside: (
        (rng.pareto(0.8, len(inside)) + 1) * _times(inside, 2)
    ),
}
"""Weights that say nothing of the communities, and others that are heavier inside of them."""


def _weighted(graph: PlantedGraph, weights: Floats) -> Weighted:
    adjacency = _symmetric(graph.edges[0], graph.edges[1], weights, graph.n_nodes)
    return Weighted(np.arange(graph.n_nodes), adjacency, graph.communities)


def _symmetric(rows: NDArray, columns: NDArray, weights: Floats, n_nodes: int) -> csr_array:  # type: ignore[type-arg]
    half = coo_array((weights, (rows, columns)), (n_nodes, n_nodes)).tocsr()
    adjacency = (half + half.T).tocsr()
    adjacency.sort_indices()
    return adjacency


def _real(folder: Path, first: bool) -> Iterator[tuple[str, Weighted]]:
    for name, graphs in {
        "Enron, months, mails": _enron(folder),
        "Email-EU, 28 days, mails": _emails(folder),
        "T-Drive, 10 minutes, 1 / metres": _taxis(folder),
        "high school, hours, contacts": _school(folder, HOUR),
        "high school, days, contacts": _school(folder, DAY),
    }.items():
        windows = list(graphs)
        linked = [
            Weighted(one.nodes, one.adjacency, one.truth, following)
            for one, following in zip(windows, [*windows[1:], None], strict=True)
        ]
        half = len(linked) // 2
        yield from ((name, graph) for graph in (linked[:half] if first else linked[half:]))


def _enron(folder: Path) -> Iterator[Weighted]:
    table = pq.read_table(folder / "enron_monthly.parquet").to_pandas()
    for _, rows in table.groupby("snapshot"):
        yield _graph(rows.src.to_numpy(), rows.dst.to_numpy(), rows.weight.to_numpy(np.float64))


def _emails(folder: Path) -> Iterator[Weighted]:
    table = pq.read_table(folder / "email_eu_temporal.parquet").to_pandas()
    for _, rows in table.groupby(table.t // MONTH):
        yield _graph(rows.src.to_numpy(), rows.dst.to_numpy(), np.ones(len(rows)))


def _taxis(folder: Path) -> Iterator[Weighted]:
    """Where 1,279 random taxis were last seen, each joined with its 20 nearest."""
    fixes = pq.read_table(folder / "tdrive_1h.parquet").to_pandas().sort_values("t")
    taxis = np.random.default_rng(0).choice(fixes.taxi.unique(), 1279, replace=False)
    fixes = fixes[fixes.taxi.isin(taxis)]
    seconds = (fixes.t - fixes.t.min()).dt.total_seconds()
    for minutes in range(10, 61, 10):
        last = fixes[seconds <= 60 * minutes].groupby("taxi").last()
        metres = np.stack([last.lat * 111_000, last.lon * 85_000], axis=1)
        distance, nearest = cKDTree(metres).query(metres, 21)
        taxi = np.repeat(np.arange(len(last)), 20)
        ends = np.sort(np.stack([taxi, nearest[:, 1:].ravel()]), axis=0)
        _, once = np.unique(ends[0] * len(last) + ends[1], return_index=True)
        ids = last.index.to_numpy()[ends[:, once]]
        yield _graph(ids[0], ids[1], 1 / (distance[:, 1:].ravel()[once] + 10))


def _school(folder: Path, seconds: int) -> Iterator[Weighted]:
    name = "events_contacts_high_school_2012.parquet"
    contacts = pq.read_table(folder / "labelled" / "edges" / name).to_pandas()
    labels = pq.read_table(folder / "labelled" / "labels" / name).to_pandas()
    classes = dict(zip(labels.node, labels.label.astype("category").cat.codes, strict=True))
    for _, rows in contacts.groupby(contacts.time.dt.floor(f"{seconds}s")):
        graph = _graph(rows.src.to_numpy(), rows.dst.to_numpy(), np.ones(len(rows)))
        if graph.adjacency.shape[0] >= 50:
            truth = np.array([classes[node] for node in graph.nodes], np.int32)
            yield Weighted(graph.nodes, graph.adjacency, truth)


def _graph(src: NDArray, dst: NDArray, weights: Floats) -> Weighted:  # type: ignore[type-arg]
    apart = src != dst
    nodes, ends = np.unique(np.concatenate([src[apart], dst[apart]]), return_inverse=True)
    low, high = np.sort(ends.reshape(2, -1), axis=0)
    return Weighted(nodes, _symmetric(low, high, weights[apart], len(nodes)))


Row = dict[str, list[float]]


def _table(*sources: Iterator[tuple[str, Weighted]]) -> dict[str, dict[str, Row]]:
    """Of each set, of each measure, the values of each way."""
    table: dict[str, dict[str, Row]] = {}
    for source in sources:
        for name, graph in source:
            for way, read in WAYS.items():
                for measure, value in _measures(graph, read).items():
                    row = table.setdefault(name, {}).setdefault(measure, {})
                    row.setdefault(way, []).append(value)
    return table


def _measures(graph: Weighted, read: Callable[[Floats], Floats]) -> dict[str, float]:
    values = read(graph.adjacency.data)
    if read is not WAYS["as they are"]:
        values = values / values.mean()
    adjacency = csr_array(
        (values, graph.adjacency.indices, graph.adjacency.indptr), graph.adjacency.shape
    )
    if graph.truth is None:
        return _without_truth(graph, _local_moves(adjacency, None))
    k = len(np.unique(graph.truth))
    found = {
        "modularity, K unknown": _local_moves(adjacency, None),
        "beliefs, K given": _beliefs(adjacency, k, graph.truth),
    }
    if len(graph.nodes) >= 400:
        found["encoder, K given"] = _encoder(adjacency, k)
    return {measure: 100 * nmi(graph.truth, labels) for measure, labels in found.items()}


def _without_truth(graph: Weighted, labels: Labels) -> dict[str, float]:
    values = {"Q of the window": modularity(graph.adjacency, labels)}
    if graph.following is not None:
        _, here, there = np.intersect1d(
            graph.nodes, graph.following.nodes, assume_unique=True, return_indices=True
        )
        later = csr_array(graph.following.adjacency[there][:, there])
        if later.nnz:
            values["Q of the next window"] = modularity(later, labels[here])
    return {measure: 100 * value for measure, value in values.items()}


def _local_moves(adjacency: csr_array, k: int | None) -> Labels:
    return _bp(adjacency, BpParameters(), k)


def _beliefs(adjacency: csr_array, k: int, truth: Labels) -> Labels:
    """With the mixing that labelled graphs would have given for these weights."""
    rows = np.repeat(truth, np.diff(adjacency.indptr))
    mixing = adjacency.data[rows != truth[adjacency.indices]].sum() / adjacency.data.sum()
    return _bp(adjacency, BpParameters(8.0, float(np.clip(mixing, 0.01, 0.99)), iterations=1), k)


def _bp(adjacency: csr_array, parameters: BpParameters, k: int | None) -> Labels:
    rng = np.random.default_rng(0)
    return found_exactly(finest_level(adjacency), parameters, k, rng).labels


def _encoder(adjacency: csr_array, k: int) -> Labels:
    model = _shipped()
    features = model_features(adjacency, model.recipe)
    embedding = encoder(model.recipe.encoder).embed(model.weights, features, adjacency, 2)
    return cluster(embedding, k, threads=2)


@cache
def _shipped():  # type: ignore[no-untyped-def]
    return open_model("lfr").model


def _page(chosen_by: dict[str, dict[str, Row]], reported: dict[str, dict[str, Row]]) -> str:
    return INTRODUCTION.format(validation=_summary(chosen_by), test=_summary(reported)) + "\n".join(
        [_head("set | measure")]
        + [
            f"| {name} | {measure} | {_cells(row)} |"
            for name, rows in reported.items()
            for measure, row in rows.items()
        ]
        + [""]
    )


def _summary(table: dict[str, dict[str, Row]]) -> str:
    """Means over the sets, of each measure."""
    rows: dict[str, dict[str, list[float]]] = {}
    for measures in table.values():
        for measure, row in measures.items():
            for way, values in row.items():
                rows.setdefault(measure, {}).setdefault(way, []).append(float(np.mean(values)))
    return "\n".join(
        [_head("measure")] + [f"| {measure} | {_cells(row)} |" for measure, row in rows.items()]
    )


def _head(first: str) -> str:
    titles = f"| {first} | " + " | ".join(WAYS) + " |"
    return titles + "\n" + "|".join(["", *[" --- "] * (titles.count("|") - 1), ""])


def _cells(row: Row) -> str:
    return " | ".join(f"{np.mean(row[way]):.1f}" for way in WAYS)


INTRODUCTION = """# Edge weights

For those whose graphs have weights: how detection uses them, and why.

Both methods replace a weight w by f(w) = √min(w / median, 16), divided by the mean of f over the
edges (`stream_icd.methods.graphs.weights`). Therefore:

- The unit of the weights does not matter.
- A graph with equal weights is treated like one without weights.
- A weight above 16 times the median counts as 16 times the median.

`weight_exponent` in a model's recipe sets another exponent than ½, the default. Training on
labelled weighted graphs also tries 0 and 1. The `modularity` and `ncut` of a result use the
original weights.

## Why

In a sparse graph, the existence of an edge says more than its weight. If weights count in
proportion, most of this information is lost. If they are compressed, most of it is kept where the
weights are meaningless, and they help where they mean something. The square root also equalises
the variance of counts. The cube root and lower caps are better on these simulated graphs, but
worse on dense graphs (correlations, similarities), where all information is in the weights.
Belief propagation is not suitable for dense graphs, with any use of weights.

## Figures

Made by `python -m benchmarks.weights`. Each column is a way to use the weights; a cap is a
multiple of the median.

measure | meaning (all in percent)
--- | ---
modularity | NMI of local moves at γ = 1, on simulated and labelled graphs
beliefs | NMI of local moves and belief propagation with the mixing learned from labels, on the \
same graphs
encoder | NMI of the shipped `lfr` encoder and K-means, on the same graphs
Q of the window | modularity (with the original weights) of the communities, on graphs without \
labels
Q of the next window | modularity of the same communities in the next window, for which they were \
not made

Validation graphs, on which the way was chosen; means over the sets:

{validation}

Test graphs; means over the sets:

{test}

Test graphs, each set:

"""


if __name__ == "__main__":
    main()
