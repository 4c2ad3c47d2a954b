"""A stream of LFR graphs whose communities drift, and a record of the planted events.

Nodes and degrees stay the same; a few nodes change community at each step, and sometimes a whole
community merges with another, splits, is born or dies. The edges of each snapshot are drawn anew.
The correct result of a community tracker is therefore known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from stream_icd.core.arrays import Ids
from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.lfr import (
    Degrees,
    LfrSettings,
    SplitDegrees,
    assign_communities,
    draw_communities,
    draw_degrees,
    split_degrees,
    wire_edges,
)
from stream_icd.methods.synthetic.planted_graph import PlantedGraph, ordered_edges

_Identities = Ids
"""A community keeps its identity for life; its label in a snapshot (0..K-1) may change."""


@dataclass(frozen=True, eq=False)
class Drift:
    """Changes between the previous snapshot and this one; events come before moves."""

    identities: _Identities  # (K,) ascending; label c of this snapshot's communities is the c-th
    moved: Ids  # ascending; nodes that changed community one by one, not by an event
    merges: tuple[tuple[int, int], ...] = ()  # (absorbed, survivor); the survivor was the larger
    splits: tuple[tuple[int, int], ...] = ()  # (parent, child); the child took half of the nodes
    births: tuple[int, ...] = ()  # founded by nodes of many communities
    deaths: tuple[int, ...] = ()  # their nodes scattered over many communities


def generate_drifting_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings = LfrSettings(),
    churn: float = 0.02,
    event_rate: float = 0.1,
) -> Iterator[tuple[PlantedGraph, Drift]]:
    """Yield snapshots with the changes before each; nothing changes before the first.

    churn:       share of the nodes offered another community at each step.
    event_rate:  probability at each step of a merge, and likewise of a split, a birth, a death.

    Sizes always stay within the bounds of `settings`; an event without room does not happen.
    A node whose community is too small for its internal degree has more external links instead.

    Raises `BadSettings`, at once, for a share or a probability outside [0, 1].

    >>> stream = generate_drifting_lfr(7, n_snapshots=3, settings=LfrSettings(n_nodes=1000))
    >>> [graph.n_nodes for graph, drift in stream]
    [1000, 1000, 1000]
    """
    for name, share in (("churn", churn), ("event_rate", event_rate)):
        if not 0 <= share <= 1:
            raise BadSettings(f"{name} must be in 0..1, not {share}")
    if n_snapshots < 0:
        raise BadSettings(f"n_snapshots cannot be negative: {n_snapshots}")
    rng = np.random.default_rng(seed)
    return _drift(rng, n_snapshots, settings, churn, event_rate)


def _drift(
    rng: np.random.Generator,
    n_snapshots: int,
    settings: LfrSettings,
    churn: float,
    event_rate: float,
) -> Iterator[tuple[PlantedGraph, Drift]]:
    # Draws are independent for each node, so ids carry no information and need no shuffling.
    degrees = draw_degrees(rng, settings)
    stubs = split_degrees(rng, degrees, settings.mixing)
    homes = draw_communities(rng, stubs.internal, settings).astype(np.int64)
    fresh = count(int(homes.max()) + 1)
    events: dict[str, Any] = {}
    moved = np.empty(0, dtype=np.int64)
    for step in range(n_snapshots):
        if step:
            events = {
                name: event(rng, homes, settings, fresh)
                for name, event in _EVENTS.items()
                if rng.random() < event_rate
            }
            stubs = _fit(split_degrees(rng, degrees, settings.mixing), homes)
            moved = _move(rng, homes, stubs.internal, round(churn * len(homes)))
        identities, labels = np.unique(homes, return_inverse=True)
        communities = labels.astype(np.int32)
        edges = ordered_edges(wire_edges(rng, stubs, communities), len(homes))
        yield PlantedGraph(len(homes), edges, communities), Drift(identities, moved, **events)


def _fit(degrees: SplitDegrees, homes: _Identities) -> SplitDegrees:
    """Limit internal degrees to what each node's community allows; make the rest external."""
    _, labels, sizes = np.unique(homes, return_inverse=True, return_counts=True)
    internal = np.minimum(degrees.internal, sizes[labels] - 1)
    return SplitDegrees(internal, degrees.external + degrees.internal - internal)


def _move(rng: np.random.Generator, homes: _Identities, internal: Degrees, n_movers: int) -> Ids:
    """Let random nodes swap places in `homes` where each fits; return the nodes that changed."""
    movers = np.sort(rng.choice(len(homes), n_movers, replace=False))
    identities, labels, sizes = np.unique(homes, return_inverse=True, return_counts=True)
    places = np.bincount(labels[movers], minlength=len(sizes))
    new_homes = identities[assign_communities(rng, internal[movers], sizes, places)]
    moved: Ids = movers[new_homes != homes[movers]]
    homes[movers] = new_homes
    return moved


def _merge(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, _: Iterator[int]
) -> tuple[tuple[int, int], ...]:
    """Merge two communities into one with the identity of the larger: (absorbed, survivor)."""
    identities, sizes = np.unique(homes, return_counts=True)
    chosen = rng.integers(len(identities))
    fits = sizes + sizes[chosen] <= settings.max_community
    fits[chosen] = False
    if len(identities) < 3 or not fits.any():
        return ()
    pair = [chosen, rng.choice(np.flatnonzero(fits))]
    absorbed, survivor = identities[sorted(pair, key=lambda community: int(sizes[community]))]
    homes[homes == absorbed] = survivor
    return ((int(absorbed), int(survivor)),)


def _split(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, fresh: Iterator[int]
) -> tuple[tuple[int, int], ...]:
    """Split a random half, the smaller if odd, off a community: (parent, child)."""
    identities, sizes = np.unique(homes, return_counts=True)
    parents = identities[sizes >= 2 * settings.min_community]
    if not len(parents):
        return ()
    parent, child = int(rng.choice(parents)), next(fresh)
    members = rng.permutation(np.flatnonzero(homes == parent))
    homes[members[: len(members) // 2]] = child
    return ((parent, child),)


def _birth(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, fresh: Iterator[int]
) -> tuple[int, ...]:
    """Form a community, twice the smallest size, of random nodes: (newborn,)."""
    size = min(2 * settings.min_community, settings.max_community)
    founders = _spare_nodes(rng, homes, settings.min_community)
    if len(founders) < size:
        return ()
    newborn = next(fresh)
    homes[rng.choice(founders, size, replace=False)] = newborn
    return (newborn,)


def _death(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, _: Iterator[int]
) -> tuple[int, ...]:
    """Distribute a community's nodes over the others, by the room in each: (dead,)."""
    identities, sizes = np.unique(homes, return_counts=True)
    dead = rng.integers(len(identities))
    room = settings.max_community - sizes
    room[dead] = 0
    if len(identities) < 3 or room.sum() < sizes[dead]:
        return ()
    taken = rng.multivariate_hypergeometric(room, sizes[dead])
    members = rng.permutation(np.flatnonzero(homes == identities[dead]))
    homes[members] = np.repeat(identities, taken)
    return (int(identities[dead]),)


def _spare_nodes(rng: np.random.Generator, homes: _Identities, smallest: int) -> Ids:
    """Return random nodes that can all leave without a community falling below `smallest`."""
    nodes = rng.permutation(len(homes))
    nodes = nodes[np.argsort(homes[nodes], kind="stable")]
    _, starts, sizes = np.unique(homes[nodes], return_index=True, return_counts=True)
    rank = np.arange(len(homes)) - np.repeat(starts, sizes)  # of a node in its community
    return nodes[rank < np.repeat(sizes - smallest, sizes)]


_EVENTS = {"merges": _merge, "splits": _split, "births": _birth, "deaths": _death}
"""Each changes `homes` in place: `(n_nodes,)`, the identity of each node's community.

It keeps the size of every community within the bounds of the settings, and at least two
communities; without room for the event, nothing changes and the result is empty.
"""
