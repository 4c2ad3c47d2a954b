"""Births: new communities formed by nodes that were in other communities.

Nodes that are new, or have few edges in their community, propose new communities: local moves among
them (`posterior`). They then move between these and their remembered communities, to where they
have more evidence; each one that leaves costs its encoding. A proposed community is accepted if its
gain in likelihood exceeds the cost of encoding which nodes have left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.bp.planted_partition.likelihood import (
    Floats,
    Groups,
    groups_of,
    label_code,
    log_binomial,
    log_likelihood_ratio,
)
from stream_icd.graphs.compiled import compiled

ROUNDS = 5
"""Rounds of moving nodes to where their evidence is; each move may change that of the others."""


def emerged_communities(
    graph: LevelGraph, proposed: Labels, n_proposed: int, remembered: Labels, mixing: float
) -> Labels:
    """The accepted new community of each node, -1 for none: (n,).

    proposed, remembered: (n,) labels from 0 on, -1 for none. Nodes without a remembered community
    stay in their proposed one.
    """
    born = proposed.copy()
    n_remembered = int(remembered.max(initial=-1)) + 1
    if not n_proposed:
        return born
    old = groups_of(graph, remembered, n_remembered)
    for _ in range(ROUNDS):
        if not _sorted_out(graph, born, n_proposed, remembered, old, mixing):
            break
    n_known = int((remembered >= 0).sum())
    price = label_code(n_remembered)
    gains, leavers = _gains(graph, born, n_proposed, remembered, old, mixing)
    costs = np.array([log_binomial(n, n_known - n) + price if n else 0.0 for n in leavers])
    refused = (born >= 0) & (remembered >= 0) & np.append(gains <= costs, False)[born]
    born[refused] = -1
    return born


@compiled()
def _sorted_out(
    graph: LevelGraph, born: Labels, n_born: int, remembered: Labels, old: Groups, mixing: float
) -> int:
    """Put each node where it belongs: in `born`, or in its remembered community (-1).

    Only nodes that a new community reaches can belong to it. Returns how many nodes have moved.
    """
    n_nodes, n_known = len(born), 0
    volumes, leavers = np.zeros(n_born), np.zeros(n_born)
    is_reached = np.zeros(n_nodes, np.bool_)
    for node in range(n_nodes):
        n_known += remembered[node] >= 0
        if born[node] < 0:
            continue
        volumes[born[node]] += graph.strengths[node]
        leavers[born[node]] += remembered[node] >= 0
        is_reached[node] = True
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            is_reached[graph.indices[entry]] = True
    # Nats to encode that one more of the known nodes leaves for each new community.
    prices = np.log(max(n_known, 1) / np.maximum(leavers, 1))
    best, links, n_moved = born.copy(), np.zeros(n_born), 0
    for node in range(n_nodes):
        if is_reached[node] and remembered[node] >= 0:
            best[node] = _best_place(
                graph, node, born, remembered, volumes, old, prices, links, mixing
            )
    for node in range(n_nodes):
        n_moved += best[node] != born[node]
        born[node] = best[node]
    return n_moved


@compiled()
def _best_place(
    graph: LevelGraph,
    node: int,
    born: Labels,
    remembered: Labels,
    volumes: Floats,
    old: Groups,
    prices: NDArray[np.float64],
    links: NDArray[np.float64],
    mixing: float,
) -> int:
    """The new community that explains a node's edges better than its remembered one, or -1.

    links: all 0, before and after.
    """
    to_old = 0.0
    for entry in range(graph.indptr[node], graph.indptr[node + 1]):
        neighbour = graph.indices[entry]
        if born[neighbour] >= 0:
            links[born[neighbour]] += graph.weights[entry]
        if remembered[neighbour] == remembered[node]:
            to_old += graph.weights[entry]
    most, place = _lost(graph, node, to_old, old, remembered[node], mixing), -1
    for entry in range(graph.indptr[node], graph.indptr[node + 1]):
        community = born[graph.indices[entry]]
        if community >= 0 and links[community] > 0:
            volume = volumes[community]
            if born[node] != community:
                volume += graph.strengths[node]
            gain = (
                links[community] * log_likelihood_ratio(volume, graph.total, mixing)
                - prices[community]
            )
            if gain > most:
                most, place = gain, community
            links[community] = 0.0
    return place


@compiled()
def _gains(
    graph: LevelGraph,
    born: Labels,
    n_born: int,
    remembered: Labels,
    old: Groups,
    mixing: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The gain of each community in nats, and the number of nodes that leave others for it."""
    new = groups_of(graph, born, n_born)
    gains, leavers = np.empty(n_born), np.zeros(n_born)
    for community in range(n_born):
        gains[community] = new.within[community] * log_likelihood_ratio(
            new.volumes[community], graph.total, mixing
        )
    for node in range(len(born)):
        if born[node] >= 0 and remembered[node] >= 0:
            links = _links(graph, node, born, remembered)[1]
            gains[born[node]] -= _lost(graph, node, links, old, remembered[node], mixing)
            leavers[born[node]] += 1
    return gains, leavers


@compiled()
def _lost(
    graph: LevelGraph, node: int, links: float, old: Groups, home: int, mixing: float
) -> float:
    """The log likelihood that is lost when a node leaves its remembered community, in nats.

    Its links there become links between communities; those of the others become more likely.
    """
    volume = old.volumes[home]
    before = log_likelihood_ratio(volume, graph.total, mixing)
    after = log_likelihood_ratio(volume - graph.strengths[node], graph.total, mixing)
    lost: float = links * before - (old.within[home] - links) * (after - before)
    return lost


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
