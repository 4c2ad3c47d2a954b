"""Laws of streams, and the changes of them that retraining is measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.shared.streams.retrained_stream import Windows
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.sources.generated import planted_snapshots

Law = Callable[[int, int], Sequence[PlantedGraph]]
"""From a seed and a number of windows to their graphs."""

NODES, SMALL = 1000, 250


def gn(p_in: float, communities: int, nodes: int = NODES) -> Law:
    """GN graphs with equal communities, each window with others."""
    return _each(partial(generate_gn, n_nodes=nodes, n_communities=communities, p_in=p_in))


def lfr(mixing: float, least: int = 10, most: int = 100, nodes: int = NODES) -> Law:
    """LFR graphs with communities of `least` to `most` nodes, each window with others."""
    settings = LfrSettings(
        nodes, min_community=least, max_community=most, max_degree=most, mixing=mixing
    )
    return _each(partial(generate_lfr, settings=settings))


def steady_lfr(mixing: float, nodes: int = NODES, most: int = 100) -> Law:
    """LFR graphs in which all but 2 % of the nodes stay in their community."""
    settings = LfrSettings(nodes, max_degree=most, max_community=most, mixing=mixing)
    return lambda seed, count: [
        graph for graph, _ in generate_drifting_lfr(seed, count, settings, churn=0.02)
    ]


def _each(draw: Callable[[np.random.Generator], PlantedGraph]) -> Law:
    def graphs(seed: int, count: int) -> list[PlantedGraph]:
        rng = np.random.default_rng(seed)
        return [draw(rng) for _ in range(count)]

    return graphs


LAWS: dict[str, Law] = {
    "LFR .3": lfr(0.3),
    "LFR .5": lfr(0.5),
    "LFR .3, of 40-200": lfr(0.3, 40, 200),
    "LFR .3, of 10-50": lfr(0.3, 10, 50),
    "GN .4": gn(0.4, 50),
    "GN .3": gn(0.3, 50),
    "GN .4, of 80": gn(0.4, 12),
    "steady LFR .3": steady_lfr(0.3),
    "steady LFR .6": steady_lfr(0.6),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A stream with one or two shifts of its law; its laws are keys of `LAWS`."""

    name: str
    laws: tuple[str, ...]


CHANGES = (
    Change("LFR, μ .3 → .5 → .3", ("LFR .3", "LFR .5", "LFR .3")),
    Change("GN, p_in .4 → .3", ("GN .4", "GN .3")),
    Change("LFR, sizes 40-200 → 10-50", ("LFR .3, of 40-200", "LFR .3, of 10-50")),
    Change("steady LFR, μ .3 → .6", ("steady LFR .3", "steady LFR .6")),
    Change("GN .4 → LFR .5", ("GN .4", "LFR .5")),
    Change("GN .4 → LFR .3", ("GN .4", "LFR .3")),
    Change("GN, sizes 80 → 20", ("GN .4, of 80", "GN .3")),
)

NO_COMMUNITIES = "random"

SMALL_LAWS: dict[str, Law] = {
    "LFR .3": lfr(0.3, 10, 60, SMALL),
    "GN .4": gn(0.4, 12, SMALL),
    "LFR .5": lfr(0.5, 10, 60, SMALL),
    "GN .6, of 10": gn(0.6, 25, SMALL),
    "steady LFR .5": steady_lfr(0.5, SMALL, 60),
    NO_COMMUNITIES: gn(0.04, 1, SMALL),
}


def windows_of(parts: Sequence[tuple[Law, int]], seed: int) -> Windows:
    """The windows of a stream whose law changes: each law with its number of windows."""
    graphs = (
        graph for at, (law, count) in enumerate(parts) for graph in law(seed + 1000 * at, count)
    )
    return [
        (replace(snapshot, n_communities=None), labels)  # with K, nearly any model finds them
        for snapshot, labels in planted_snapshots(graphs, "stream", "benchmark")
    ]
