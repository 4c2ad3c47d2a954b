"""Births: new communities formed by nodes that were in other communities.

Local moves with ghosts propose new communities: those without a ghost. A proposed community keeps
the nodes that have more evidence there than in their remembered community. It is accepted if its
gain in likelihood exceeds the cost of encoding which nodes have left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.lift import choices, groups_of, lift, naming
from stream_icd.graphs.compiled import compiled

ROUNDS = 3
"""Rounds of removing nodes whose evidence is elsewhere; each removal may weaken the others."""


def born_communities(
    graph: LevelGraph, proposed: Labels, n_proposed: int, remembered: Labels, mixing: float
) -> Labels:
    """The accepted new community of each node, -1 for none: (n,).

    proposed, remembered: (n,) labels from 0 on, -1 for none. Nodes without a remembered community
    stay in their proposed one.
    """
    born = proposed.copy()
    n_remembered = int(remembered.max(initial=-1)) + 1
    for _ in range(ROUNDS):
        if not _leave(graph, born, n_proposed, remembered, n_remembered, mixing):
            break
    n_known = int((remembered >= 0).sum())
    price = naming(n_remembered)
    gains, leavers = _gains(graph, born, n_proposed, remembered, n_remembered, mixing)
    costs = np.array([choices(n, n_known - n) + price if n else 0.0 for n in leavers])
    refused = (born >= 0) & (remembered >= 0) & np.append(gains <= costs, False)[born]
    born[refused] = -1
    return born


@compiled()
def _leave(
    graph: LevelGraph,
    born: Labels,
    n_born: int,
    remembered: Labels,
    n_remembered: int,
    mixing: float,
) -> int:
    """Remove from `born` nodes that belong to their remembered community; returns how many."""
    new, old = groups_of(graph, born, n_born), groups_of(graph, remembered, n_remembered)
    stays = np.zeros(len(born), np.bool_)
    for node in range(len(born)):
        if born[node] < 0 or remembered[node] < 0:
            continue
        links = _links(graph, node, born, remembered)
        here = links[0] * lift(new.volumes[born[node]], graph.total, mixing)
        stays[node] = here <= links[1] * lift(old.volumes[remembered[node]], graph.total, mixing)
    n_out = 0
    for node in range(len(born)):
        if stays[node]:
            born[node] = -1
            n_out += 1
    return n_out


@compiled()
def _gains(
    graph: LevelGraph,
    born: Labels,
    n_born: int,
    remembered: Labels,
    n_remembered: int,
    mixing: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The gain of each community in nats, and the number of nodes that leave others for it."""
    new, old = groups_of(graph, born, n_born), groups_of(graph, remembered, n_remembered)
    gains, leavers = np.empty(n_born), np.zeros(n_born)
    for community in range(n_born):
        gains[community] = new.within[community] * lift(new.volumes[community], graph.total, mixing)
    for node in range(len(born)):
        if born[node] >= 0 and remembered[node] >= 0:
            links = _links(graph, node, born, remembered)[1]
            volume = old.volumes[remembered[node]]
            gains[born[node]] -= links * lift(volume, graph.total, mixing)
            leavers[born[node]] += 1
    return gains, leavers


@compiled()
def _links(graph: LevelGraph, node: int, born: Labels, remembered: Labels) -> tuple[float, float]:
    """The weight of the node's edges to its new community, and to its remembered one."""
    to_new, to_old = 0.0, 0.0
    for entry in range(graph.indptr[node], graph.indptr[node + 1]):
        neighbour = graph.indices[entry]
        if born[neighbour] == born[node]:
            to_new += graph.weights[entry]
        if remembered[neighbour] == remembered[node]:
            to_old += graph.weights[entry]
    return to_new, to_old
