"""Single graphs whose classes are known: half for choosing, half for reporting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.shared.graphs.data_sets import BenchmarkGraph
from benchmarks.shared.streams.known_streams import (
    START,
    Purpose,
    internet_days,
    snapshot_in,
    with_classes,
)
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.quality.agreement import of_known

CHOOSE = (
    "cora", "eurosis", "fb100_Caltech36", "fb100_Smith60", "gpb", "karate", "newsgroup_3cl2",
    "railway", "tc1_7", "xil_3000_mu5",
)  # fmt: skip
"""Rules were chosen on most of these before."""

REPORT = (
    "citeseer", "dolphin", "fb100_Reed98", "fb100_Rice31", "football", "lastfm_asia",
    "newsgroup_3cl1", "polbooks", "tc1_2", "xil_1000_mu3",
)  # fmt: skip

AS_DAYS = range(30, 733, 73)
"""Ten days from 1997 to 1999; all are complete."""


@dataclass(frozen=True, eq=False)
class ClassifiedGraph:
    """A graph, and its classifications: all count equally.

    classifications: the class of each node, `(n_nodes,)` each; `NO_CLASS` if it is unknown.
    """

    adjacency: csr_array
    classifications: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class KnownGraphs:
    """One graph, or some of a kind, that methods are compared on."""

    name: str
    purpose: Purpose
    load: Callable[[], list[ClassifiedGraph]]


def known_graphs(data: Path) -> dict[str, KnownGraphs]:
    """All of them by name; their files are in `data`, and read by `load`."""
    purposes: dict[str, Purpose] = dict.fromkeys(CHOOSE, "choose")
    purposes |= dict.fromkeys(REPORT, "report")
    found = [
        KnownGraphs(name, purpose, partial(_of_file, data / "labelled", name))
        for name, purpose in sorted(purposes.items())
    ]
    found.append(KnownGraphs("AS with countries", "report", partial(_internet, data)))
    return {graphs.name: graphs for graphs in found}


def _of_file(folder: Path, name: str) -> list[ClassifiedGraph]:
    """The graph of the nodes that have an edge."""
    pairs = pq.read_table(folder / "edges" / f"{name}.parquet").to_pandas()
    snapshot = snapshot_in(pairs, Window(START, START + timedelta(days=1)))
    files = sorted((folder / "labels").glob(f"{name}_*.parquet"))
    return [_classified(snapshot, files or [folder / "labels" / f"{name}.parquet"])]


def _internet(data: Path) -> list[ClassifiedGraph]:
    countries = [data / "labelled" / "labels" / "as733_countries.parquet"]
    days = internet_days(data / "as733.parquet", AS_DAYS)
    return [_classified(day, countries) for day in days]


def _classified(snapshot: Snapshot, files: list[Path]) -> ClassifiedGraph:
    classes = (next(with_classes(iter([snapshot]), file)).classes for file in files)
    return ClassifiedGraph(snapshot.adjacency(), tuple(classes))


def agreement(
    measure: Callable[[NDArray[np.int64], NDArray[np.int32]], float],
    graph: ClassifiedGraph,
    communities: NDArray[np.int32],
) -> float:
    """Agreement with the classes in percent, on the nodes whose class is known."""
    scores = [measure(*of_known(classes, communities)) for classes in graph.classifications]
    return 100 * float(np.mean(scores))


def labelled_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Edges and labels of single graphs, and of those that change, with one class for each node."""
    for edges in sorted((folder / "edges").glob("*.parquet")):
        labels = folder / "labels" / edges.name
        if labels.is_file() and not edges.name.startswith(("events_", "stream_")):
            yield edges, labels


def labelled_graphs(edges: Path, labels: Path) -> Iterator[BenchmarkGraph]:
    """One graph, or one for each `window_start`; nodes without a label are left out."""
    pairs, known = pq.read_table(edges).to_pandas(), pq.read_table(labels).to_pandas()
    if "window_start" not in pairs:
        yield _labelled_graph(pairs, known)
        return
    for window, of_window in pairs.groupby("window_start"):
        yield _labelled_graph(of_window, known[known.window_start == window])


STREAMS = ("brain", "dblp")


def stream_graphs(folder: Path, only: Sequence[str] | None) -> Iterator[tuple[str, BenchmarkGraph]]:
    """The windows of a stream as one graph; an edge weighs as many as the windows that have it."""
    for stream in STREAMS:
        name = f"{stream}, all windows"
        if name in (only or [name]):
            pairs = pq.read_table(folder / "edges" / f"stream_{stream}.parquet").to_pandas()
            labels = pq.read_table(folder / "labels" / f"stream_{stream}.parquet").to_pandas()
            yield name, _labelled_graph(pairs, labels)


def _labelled_graph(pairs: pd.DataFrame, known: pd.DataFrame) -> BenchmarkGraph:
    place = {node: index for index, node in enumerate(known.node)}
    inside = pairs[pairs.src.isin(place) & pairs.dst.isin(place)]
    ends = np.array([inside.src.map(place), inside.dst.map(place)], np.int64)
    truth = np.unique(known.label, return_inverse=True)[1].astype(np.int32)
    return BenchmarkGraph(as_adjacency((ends, len(place))), truth)
