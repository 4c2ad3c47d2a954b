"""What memory between windows is worth: on drifting graphs, after a break, on real streams.

    python -m benchmarks.memory --data FOLDER [--seeds 10] [--results FILE]

FOLDER holds as733.parquet, tdrive_1h.parquet, email_eu_temporal.parquet and labelled/. Each figure
is kept in FILE (JSON lines) as soon as it is known; a run that was ended goes on from there.
Writes docs/measured/memory.md. Choices were made on seeds below 1,000; reported are seeds from 9000
on. The peers need leidenalg and tnetwork (`pip install 'stream-icd[bench]' tnetwork`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.shared.commit import current_commit
from benchmarks.shared.graphs.data_sets import N_TAXIS, TEST_SEED
from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.pages.memory_page import memory_page
from benchmarks.shared.peers.memory_peers import (
    label_propagation,
    multilayer_leiden,
    smoothed_louvain,
)
from benchmarks.shared.streams.known_streams import (
    HOUR,
    NO_CLASS,
    START,
    KnownWindow,
    contacts,
    dated_windows,
    event_windows,
    hour,
    internet_days,
    snapshot_of,
    with_classes,
)
from benchmarks.shared.streams.memory_streams import N_WINDOWS, Stream
from benchmarks.shared.streams.stream_scores import renamed_churn
from stream_icd.core.snapshot import Snapshot
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import hide_edges, modularity
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.sources.datasets.taxi import TaxiSettings
from stream_icd.sources.source import stop_at_bad_row
from stream_icd.sources.tables import read_rows
from stream_icd.sources.timed_rows import Columns, sorted_by_time
from stream_icd.sources.windows import windowed_snapshots

DOCS = Path(__file__).parents[1] / "docs" / "measured"
STREAMS = (
    *(Stream(mixing) for mixing in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
    *(Stream(churn=churn) for churn in (0.005, 0.05, 0.1, 0.2)),
    *(Stream(n_nodes=n_nodes) for n_nodes in (1000, 2000, 20_000, 50_000)),
    *(Stream(mixing, k_given=True) for mixing in (0.3, 0.6, 0.7)),
    Stream(0.3, n_nodes=6500, churn=0.2, small=True),
)
BROKEN = tuple(Stream(mixing) for mixing in (0.3, 0.6))
LEARNED = tuple(Stream(mixing) for mixing in (0.4, 0.6, 0.7))
PEERS = {
    "multilayer Leiden, weight 0.5": partial(multilayer_leiden, weight=0.5),
    "multilayer Leiden, weight 1": partial(multilayer_leiden, weight=1.0),
    "multilayer Leiden, weight 2": partial(multilayer_leiden, weight=2.0),
    "smoothed Louvain": lambda graphs, **_: smoothed_louvain(graphs),
    "label propagation, online": label_propagation,
}

FEWEST_AT_SCHOOL = 40

MANY_NODES = 10_000
"""Streams of that many nodes come last."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument(
        "--seeds", type=int, default=10, help="streams of each kind; 0: only write the page"
    )
    parser.add_argument("--results", type=Path, default=Path("memory-results.jsonl"))
    options = parser.parse_args()
    figures = Kept(options.results)
    if not options.seeds:
        write_page(figures.known)
        return
    _compile()
    commit = current_commit()
    for name, measure in measurements(range(TEST_SEED, TEST_SEED + options.seeds), options.data):
        figures.of(name, lambda m=measure: m() | {"commit": commit})
    write_page(figures.known)


def measurements(seeds: range, data: Path) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """All figures by name: each kind with all seeds, the kinds that are read first."""
    yield from real_streams(data).items()
    few, many = (
        [one for one in STREAMS if (one.n_nodes >= MANY_NODES) is are_many]
        for are_many in (False, True)
    )
    kinds = (
        ("", few, drifting),
        ("break ", BROKEN, after_a_break),
        ("learned ", LEARNED, learned),
        ("", many, drifting),
    )
    for prefix, streams, measure in kinds:
        for seed in seeds:
            for stream in streams:
                yield f"{prefix}{stream.name} seed={seed}", partial(measure, stream, seed)
    for seed in seeds:
        for name in PEERS:
            yield f"{name} seed={seed}", partial(peer, name, seed)


def write_page(known: dict[str, Figures]) -> None:
    """docs/measured/memory.md, from the figures there are."""
    (DOCS / "memory.md").write_text(
        memory_page(
            known,
            mixings=STREAMS[:6],
            streams=STREAMS,
            broken=BROKEN,
            learned=LEARNED,
            peers=list(PEERS),
        )
    )


def drifting(stream: Stream, seed: int) -> Figures:
    """NMI by window, alone, with memory and smoothed; milliseconds of CPU a window, of each."""
    model, memory = _model(stream.parameters()), None
    alone, remembered, stays, spent = [], [], [], np.zeros(2)
    graphs = stream.windows(seed)
    for number, graph in enumerate(graphs):
        snapshot, adjacency = snapshot_of(graph, number), graph.adjacency()
        k = graph.n_communities if stream.k_given else None
        started = time.process_time()
        single = find_communities(adjacency, model.bp, k)
        between = time.process_time()
        found = detect_remembering(snapshot, model, memory, k, adjacency=adjacency)
        if number:  # the first window has no memory
            spent += [between - started, time.process_time() - between]
        memory = found.memory
        alone.append(nmi(graph.communities, single))
        remembered.append(nmi(graph.communities, found.communities))
        stays.append(memory.posterior.stay)
    milliseconds = (1000 * spent / (N_WINDOWS - 1)).tolist()
    figures = {"alone": alone, "memory": remembered, "stay": stays, "milliseconds": milliseconds}
    if not stream.k_given:
        figures |= smoothed(stream, graphs)
    return figures


def smoothed(stream: Stream, graphs: Sequence[PlantedGraph]) -> Figures:
    """NMI by window of `detect_smoothed`, and milliseconds of CPU a window."""
    snapshots = [snapshot_of(graph, number) for number, graph in enumerate(graphs)]
    started = time.process_time()
    found = detect_smoothed(snapshots, _model(stream.parameters()))
    spent = time.process_time() - started
    scores = [nmi(g.communities, f.communities) for g, f in zip(graphs, found, strict=True)]
    return {"smooth": scores, "smooth_milliseconds": 1000 * spent / len(graphs)}


def learned(stream: Stream, seed: int) -> Figures:
    """End to end without labels: learn from five windows, follow ten of another stream."""
    past = [
        LabelledGraph(one.adjacency(), None, Moment("past", pa.array(range(one.n_nodes)), hour(at)))
        for at, one in enumerate(stream.windows(seed + 300, 5))
    ]
    started = time.process_time()
    fit = fit_parameters(past)
    seconds = time.process_time() - started
    graphs = stream.windows(seed)
    scores = [
        nmi(graph.communities, found.communities)
        for graph, found in zip(graphs, with_memory(graphs, fit.parameters), strict=True)
    ]
    alone = [
        nmi(graph.communities, find_communities(graph.adjacency(), fit.parameters))
        for graph in graphs
    ]
    kept = {name: getattr(fit.parameters, name) for name in ("resolution", "mixing", "stay")}
    return {"memory": scores, "alone": alone, "seconds": seconds} | kept


def peer(name: str, seed: int) -> Figures:
    """NMI by window of a peer that gets all ten windows at once, and seconds of CPU a window."""
    stream = Stream()
    graphs = stream.windows(seed)
    adjacencies = [graph.adjacency() for graph in graphs]
    started = time.process_time()
    found = PEERS[name](adjacencies, seed=seed)
    spent = time.process_time() - started
    scores = [nmi(g.communities, f) for g, f in zip(graphs, found, strict=True)]
    return {"peer": scores, "seconds": spent / len(graphs)}


def after_a_break(stream: Stream, seed: int) -> Figures:
    """NMI of the window right after all communities have changed, alone and with memory."""
    after = stream.windows(seed + 500, 3)[0]
    *_, found = with_memory([*stream.windows(seed, 4), after], stream.parameters())
    alone = find_communities(after.adjacency(), stream.parameters())
    same = bool(np.array_equal(alone, found.communities))
    scores = [nmi(after.communities, one) for one in (alone, found.communities)]
    return {"alone": scores[0], "memory": scores[1], "same": same}


def with_memory(graphs: Sequence[PlantedGraph], parameters: BpParameters) -> Iterator[Remembered]:
    """What is found in each window with the memory of the windows before."""
    model, memory = _model(parameters), None
    for number, graph in enumerate(graphs):
        found = detect_remembering(snapshot_of(graph, number), model, memory)
        memory = found.memory
        yield found


def real_streams(data: Path) -> dict[str, Callable[[], Figures]]:
    """Streams nobody knows the communities of, and those with classes."""
    edges, labels = data / "labelled" / "edges", data / "labelled" / "labels"
    streams: dict[str, Callable[[], Figures]] = {
        "AS, 60 days": lambda: followed(
            without_classes(internet_days(data / "as733.parquet", range(400, 460)))
        ),
        "mails, 70 windows of 3 days": lambda: followed(without_classes(_mails(data))),
    }
    for path in sorted(edges.glob("dynamic_*.parquet")):
        known = partial(with_classes, labels=labels / path.name)
        streams[path.stem] = lambda p=path, c=known: followed(c(dated_windows(p)))
    school = "events_contacts_high_school_2012.parquet"
    streams["high school 2012, an hour a window"] = lambda: followed(
        with_classes(contacts(edges / school, HOUR, FEWEST_AT_SCHOOL), labels / school)
    )
    streams["taxis, ticks of a minute"] = lambda: followed(without_classes(_taxis(data)))
    return streams


def without_classes(windows: Iterable[Snapshot]) -> Iterator[KnownWindow]:
    """Windows of which no class is known."""
    for window in windows:
        yield KnownWindow(window, np.full(window.n_nodes, NO_CLASS))


def followed(windows: Iterable[KnownWindow], parameters: BpParameters | None = None) -> Figures:
    """Churn, modularity, hidden-edge score and NMI of a stream, alone and with memory; means."""
    parameters = parameters or BpParameters()
    model, off = _model(parameters), _model(replace(parameters, stay=0.0))
    memory, hidden_memory = None, None
    seen: list[dict[str, Any]] = []
    for window in windows:
        snapshot, known = window.snapshot, window.classes != NO_CLASS
        adjacency = snapshot.adjacency()
        alone = detect_remembering(snapshot, off, None)
        found = detect_remembering(snapshot, model, memory)
        memory = found.memory
        hidden = next(hide_edges(adjacency, 0))
        visible = _visible(snapshot, hidden.visible)
        guess = detect_remembering(visible, model, hidden_memory)
        hidden_memory = guess.memory
        single = detect_remembering(visible, off, None)
        seen.append(
            {
                "nodes": snapshot.nodes,
                "labels": (alone.communities, found.communities),
                "modularity": [modularity(adjacency, one.communities) for one in (alone, found)],
                "hidden": [hidden.score(one.communities) for one in (single, guess)],
                "nmi": [
                    nmi(window.classes[known], one.communities[known]) if known.any() else 0.0
                    for one in (alone, found)
                ],
                "labelled": bool(known.any()),
                "milliseconds": [alone.milliseconds, found.milliseconds],
            }
        )
    churns = [
        [renamed_churn(a["nodes"], a["labels"][i], b["nodes"], b["labels"][i]) for i in (0, 1)]
        for a, b in pairwise(seen)
    ]
    means = {
        name: np.mean([one[name] for one in seen], axis=0).tolist()
        for name in ("modularity", "hidden", "nmi", "milliseconds")
    }
    return {
        "windows": len(seen),
        "labelled": any(one["labelled"] for one in seen),
        "churn": np.mean(churns, 0).tolist(),
    } | means


def _model(parameters: BpParameters) -> Model:
    return Model(preset("AS"), parameters)


def _visible(snapshot: Snapshot, adjacency: Any) -> Snapshot:
    """The same nodes with the edges of an adjacency."""
    upper = adjacency.tocoo()
    once = upper.row < upper.col
    edges = np.stack([upper.row[once], upper.col[once]]).astype(np.int64)
    order = np.lexsort((edges[1], edges[0]))
    weights = None if snapshot.weights is None else upper.data[once][order]
    return replace(snapshot, edges=edges[:, order], weights=weights)


def _mails(data: Path) -> Iterator[Snapshot]:
    table = pq.read_table(data / "email_eu_temporal.parquet").to_pandas()
    length = timedelta(days=3)
    starts = START + pd.to_timedelta(table.t, unit="s").dt.floor(length)
    yield from event_windows(table, starts, length, least_nodes=500)


def _taxis(data: Path) -> Iterator[Snapshot]:
    """Ticks of a minute: 1,279 taxis seen in the last ten, an edge to each one's 50 nearest."""
    columns = Columns(
        "t", {"taxi": "taxi"}, TaxiSettings.degrees("lat", "lon"), zone="Asia/Shanghai"
    )
    settings = TaxiSettings(
        tick=timedelta(minutes=1), stale=timedelta(minutes=10), sample=N_TAXIS, seed=0
    )
    rows = read_rows(data / "tdrive_1h.parquet", columns.names, stop_at_bad_row)
    fixes = sorted_by_time(columns.read(rows, stop_at_bad_row))
    for snapshot, _ in windowed_snapshots(fixes, settings, on_late=lambda _: None).snapshots:
        if snapshot.n_nodes == N_TAXIS:
            yield snapshot


def _compile() -> None:
    graphs = Stream(n_nodes=1000).windows(0, 2)
    for parameters in (BpParameters(), Stream().parameters()):
        list(with_memory(graphs, parameters))


if __name__ == "__main__":
    main()
