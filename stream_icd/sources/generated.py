"""Streams of generated graphs, each with its K and its true communities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.synthetic.gn import check_gn, generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph, check_n_nodes
from stream_icd.sources.source import Source

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_STEP = timedelta(minutes=1)
_SECOND_LAW = 2**32
"""Added to the seed after a change of the law: far from the seeds that people choose."""

_Shift = Literal["none", "sudden", "gradual"]
"""How a parameter of the generator changes over a stream."""


def _shifted(shift: _Shift, n_steps: int, before: float, after: float) -> Iterator[float]:
    """Yield a parameter's value at each step: constant, changed at the middle, or linear.

    >>> list(_shifted("gradual", 3, 0.2, 0.6))
    [0.2, 0.4, 0.6]
    """
    for step in range(n_steps):
        if shift == "gradual":
            yield before + (after - before) * (step / max(n_steps - 1, 1))
        else:
            yield after if shift == "sudden" and 2 * step >= n_steps else before


def planted_snapshots(
    graphs: Iterator[PlantedGraph], graph: str, source: str
) -> Iterator[tuple[Snapshot, Labels]]:
    """Yield one snapshot per simulated minute, with every node declared."""
    for step, planted in enumerate(graphs):
        window = Window(_EPOCH + step * _STEP, _EPOCH + (step + 1) * _STEP)
        name = f"{graph}/{step:06d}"
        every_node = pa.array(range(planted.n_nodes))
        snapshot = snapshot_from_pairs(
            pa.concat_arrays([pa.array(planted.edges[0]), every_node]),
            pa.concat_arrays([pa.array(planted.edges[1]), pa.nulls(planted.n_nodes, pa.int64())]),
            graph=graph,
            id=name,
            window=window,
            n_communities=planted.n_communities,
            source=source,
        )
        yield snapshot, Labels(graph, name, window, snapshot.nodes, planted.communities, source)


def independent_gn(
    seed: int,
    n_snapshots: int,
    *,
    n_nodes: int = 5000,
    n_communities: int = 250,
    p_in: float = 0.3,
    shift: _Shift = "none",
    p_in_after: float = 0.2,
    graph: str = "gn",
) -> Source:
    """Generate an independent graph at each step, as the paper's test sets; same seed, same bytes.

    The probability of an edge inside a community changes from `p_in` to `p_in_after` by `shift`.
    Raises `BadSettings` if a probability is outside 0..1, or there are more communities than nodes.
    """
    check_gn(n_nodes, n_communities, p_in=p_in, p_in_after=p_in_after)
    graphs = (
        generate_gn(np.random.default_rng([seed, step]), n_nodes, n_communities, p)
        for step, p in enumerate(_shifted(shift, n_snapshots, p_in, p_in_after))
    )
    source = f"urn:stream_icd:gn?seed={seed}&nodes={n_nodes}&k={n_communities}&p_in={p_in:g}"
    source += f"&shift={shift}&after={p_in_after:g}" if shift != "none" else ""
    return Source(n_snapshots, planted_snapshots(graphs, graph, source))


def drifting_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    churn: float = 0.02,
    event_rate: float = 0.1,
    change: tuple[int, LfrSettings] | None = None,
    graph: str = "lfr",
) -> Source:
    """Generate graphs of the same nodes with changing communities; same seed, same bytes.

    At each step, the fraction `churn` of the nodes is offered another community, and with the
    probability `event_rate` each, there is a merge, a split, a birth and a death. `change`: after
    so many snapshots, the same nodes have these settings, and all communities are new. Raises
    `BadSettings` if a share or a probability is outside 0..1.
    """
    source = f"{_name(seed, settings)}&churn={churn:g}&events={event_rate:g}"
    at, later = change or (n_snapshots, settings)
    before = min(at, n_snapshots)
    stream = generate_drifting_lfr(seed, before, settings, churn, event_rate)
    if change is not None:
        source += f"&change={at}&mixing={later.mixing:g}"
        source += f"&sizes={later.min_community}-{later.max_community}"
        more = n_snapshots - before
        after = generate_drifting_lfr(_SECOND_LAW + seed, more, later, churn, event_rate)
        stream = chain(stream, after)
    graphs = (planted for planted, _ in stream)
    return Source(n_snapshots, planted_snapshots(graphs, graph, source))


def independent_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    most_nodes: int | None = None,
    shift: _Shift = "none",
    mixing_after: float = 0.6,
    graph: str = "lfr",
) -> Source:
    """Generate an independent graph at each step, as the paper's test sets; same seed, same bytes.

    Args:
        most_nodes: draw the number of nodes from `settings.n_nodes` to this, as the paper's
            L(n, ·); by default all have `settings.n_nodes`, as its L(f, ·).
        shift: how the mixing changes from `settings.mixing` to `mixing_after` over the stream.

    Raises `BadSettings` if `most_nodes` is below `settings.n_nodes`, or no such graph exists.
    """
    most = settings.n_nodes if most_nodes is None else most_nodes
    if most < settings.n_nodes:
        raise BadSettings(f"most_nodes={most} is below n_nodes={settings.n_nodes}")
    check_n_nodes(most)
    if shift != "none":
        replace(settings, mixing=mixing_after)  # fails at once, not during the stream

    def graphs() -> Iterator[PlantedGraph]:
        for step, mixing in enumerate(_shifted(shift, n_snapshots, settings.mixing, mixing_after)):
            rng = np.random.default_rng([seed, step])
            n_nodes = int(rng.integers(settings.n_nodes, most, endpoint=True))
            yield generate_lfr(rng, replace(settings, n_nodes=n_nodes, mixing=mixing))

    source = f"{_name(seed, settings)}&most={most}&shift={shift}"
    source += f"&after={mixing_after:g}" if shift != "none" else ""
    return Source(n_snapshots, planted_snapshots(graphs(), graph, source))


def _name(seed: int, settings: LfrSettings) -> str:
    """Return the source URI; different settings give different ones."""
    name = f"urn:stream_icd:lfr?seed={seed}&nodes={settings.n_nodes}&mixing={settings.mixing:g}"
    sizes = settings.min_community, settings.max_community
    if sizes == (LfrSettings.min_community, LfrSettings.max_community):
        return name
    return f"{name}&sizes={sizes[0]}-{sizes[1]}"
