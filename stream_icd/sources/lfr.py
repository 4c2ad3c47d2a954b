"""Streams of LFR graphs: independent, with shifting mixing, or with drifting communities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime

import numpy as np

from stream_icd.errors import BadSettings
from stream_icd.sources.planted import EPOCH, Shift, planted_snapshots, shifted
from stream_icd.sources.source import Source
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph


def drifting_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    churn: float = 0.02,
    event_rate: float = 0.1,
    graph: str = "lfr",
    start: datetime = EPOCH,
) -> Source:
    """Generate graphs of the same nodes with changing communities; same seed, same bytes.

    Args:
        churn: fraction of the nodes that are offered another community at each step.
        event_rate: probability at each step of a merge, and of a split, a birth, a death.

    Raises:
        BadSettings: a share or a probability is outside 0..1.
    """
    stream = generate_drifting_lfr(seed, n_snapshots, settings, churn, event_rate)
    graphs = (planted for planted, _ in stream)
    source = f"{_name(seed, settings)}&churn={churn:g}&events={event_rate:g}"
    return Source(n_snapshots, planted_snapshots(graphs, graph, source, start))


def independent_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    most_nodes: int | None = None,
    shift: Shift = "none",
    mixing_after: float = 0.6,
    graph: str = "lfr",
    start: datetime = EPOCH,
) -> Source:
    """Generate an independent graph at each step, as the paper's test sets; same seed, same bytes.

    Args:
        most_nodes: draw the number of nodes from `settings.n_nodes` to this, as the paper's
            L(n, ·); by default all have `settings.n_nodes`, as its L(f, ·).
        shift: how the mixing changes from `settings.mixing` to `mixing_after` over the stream.

    Raises:
        BadSettings: `most_nodes` is below `settings.n_nodes`, or no such graph exists.
    """
    most = settings.n_nodes if most_nodes is None else most_nodes
    if most < settings.n_nodes:
        raise BadSettings(f"most_nodes={most} is below n_nodes={settings.n_nodes}")
    if shift != "none":
        replace(settings, mixing=mixing_after)  # fails at once, not during the stream
    graphs = _independent(seed, n_snapshots, settings, most, shift, mixing_after)
    source = f"{_name(seed, settings)}&most={most}&shift={shift}"
    source += f"&after={mixing_after:g}" if shift != "none" else ""
    return Source(n_snapshots, planted_snapshots(graphs, graph, source, start))


def _independent(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    most_nodes: int,
    shift: Shift,
    mixing_after: float,
) -> Iterator[PlantedGraph]:
    for step in range(n_snapshots):
        rng = np.random.default_rng([seed, step])
        mixing = shifted(shift, step, n_snapshots, settings.mixing, mixing_after)
        n_nodes = int(rng.integers(settings.n_nodes, most_nodes, endpoint=True))
        yield generate_lfr(rng, **asdict(replace(settings, n_nodes=n_nodes, mixing=mixing)))


def _name(seed: int, settings: LfrSettings) -> str:
    """Return the name of the source; different settings give different names."""
    return f"urn:stream_icd:lfr?seed={seed}&nodes={settings.n_nodes}&mixing={settings.mixing:g}"
