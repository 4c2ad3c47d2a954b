"""Streams of LFR graphs: independent, with shifting mixing, or with drifting communities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain

import numpy as np

from stream_icd.errors import BadSettings
from stream_icd.sources.generated.planted import Shift, planted_snapshots, shifted
from stream_icd.sources.source import Source
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph

SECOND_LAW = 2**32
"""Added to the seed of a stream for its graphs after a change of the law."""


@dataclass(frozen=True, slots=True)
class LawChange:
    """Another law from some snapshot on: other settings, and other communities altogether.

    Attributes:
        at: number of snapshots before the change.
        settings: those of the later snapshots; they have the same nodes.
    """

    at: int
    settings: LfrSettings


def drifting_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    churn: float = 0.02,
    event_rate: float = 0.1,
    change: LawChange | None = None,
    graph: str = "lfr",
) -> Source:
    """Generate graphs of the same nodes with changing communities; same seed, same bytes.

    Args:
        churn: fraction of the nodes that are offered another community at each step.
        event_rate: probability at each step of a merge, and of a split, a birth, a death.
        change: when the law of the stream changes, and to which; None: never.

    Raises:
        BadSettings: a share or a probability is outside 0..1.
    """
    source = f"{_name(seed, settings)}&churn={churn:g}&events={event_rate:g}"
    before = n_snapshots if change is None else min(change.at, n_snapshots)
    stream = generate_drifting_lfr(seed, before, settings, churn, event_rate)
    if change is not None:
        source += f"&change={change.at}&mixing={change.settings.mixing:g}"
        source += f"&sizes={change.settings.min_community}-{change.settings.max_community}"
        # Seeds of the second law are far from those that people choose.
        after = (SECOND_LAW + seed, n_snapshots - before, change.settings)
        stream = chain(stream, generate_drifting_lfr(*after, churn, event_rate))
    graphs = (planted for planted, _ in stream)
    return Source(n_snapshots, planted_snapshots(graphs, graph, source))


def independent_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    most_nodes: int | None = None,
    shift: Shift = "none",
    mixing_after: float = 0.6,
    graph: str = "lfr",
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
    return Source(n_snapshots, planted_snapshots(graphs, graph, source))


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
    name = f"urn:stream_icd:lfr?seed={seed}&nodes={settings.n_nodes}&mixing={settings.mixing:g}"
    sizes = settings.min_community, settings.max_community
    if sizes == (LfrSettings.min_community, LfrSettings.max_community):
        return name
    return f"{name}&sizes={sizes[0]}-{sizes[1]}"
