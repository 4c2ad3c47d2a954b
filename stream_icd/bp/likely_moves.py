"""Move each node to its most likely community: belief propagation in which each node is certain.

It finds less than belief propagation, but takes a tenth of the time for each sweep. So it improves
a start partition, and shows early whether the planted model explains a graph at all.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from stream_icd.bp.level_graph import Labels, LevelGraph, compact
from stream_icd.bp.mixing import MIXING_RANGE
from stream_icd.graphs.compiled import compiled

LEAST_VOLUME = 1e-9
"""Least volume of a community in the denominator; emptied ones keep a little by rounding."""


class Settled(NamedTuple):
    """A partition after some sweeps.

    labels: (n,) int32, 0..K-1, none empty.
    mixing: μ, the fraction of the edge weight between communities, limited to `MIXING_RANGE`.
    moving: the fraction of the nodes that moved in the last sweep.
    """

    labels: Labels
    mixing: float
    moving: float


def move_to_likeliest(graph: LevelGraph, labels: Labels, mixing: float, sweeps: int) -> Settled:
    """Improve a partition under the planted model of `belief_propagation` with s = 1.

    In each sweep each node in turn moves to the community c of its neighbours with the largest
    log n_c + w_c log(1 + (1 − μ)/μ · 2E / vol_c): its probability if all others are certain of
    theirs. w_c is the weight of its edges to c. After each sweep, μ is that of the partition. This
    is classification EM (Celeux and Govaert, "A classification EM algorithm", 1992). Nodes without
    edges stay. O(E) a sweep.

    labels: (n,), 0..K-1; unchanged.
    """
    labels, n_communities = compact(labels)
    moving = 0.0
    for _ in range(sweeps):
        within, n_moved = _sweep(graph, labels, n_communities, mixing)
        mixing = float(np.clip(1 - within, *MIXING_RANGE))
        moving = n_moved / len(labels)
    return Settled(compact(labels)[0], mixing, moving)


@compiled(error_model="numpy")
def _sweep(
    graph: LevelGraph, labels: Labels, n_communities: int, mixing: float
) -> tuple[float, int]:
    """One sweep, in place: the fraction of the weight inside communities, and the moved nodes."""
    volumes, sizes = np.zeros(n_communities), np.zeros(n_communities)
    for node, label in enumerate(labels):
        volumes[label] += graph.strengths[node]
        sizes[label] += 1
    log_odds = np.empty(n_communities)
    for community in range(n_communities):
        log_odds[community] = _log_odds(volumes[community], graph.total, mixing)
    links, touched = np.zeros(n_communities), np.empty(n_communities, np.int32)
    within, n_moved = 0.0, 0
    for node, own in enumerate(labels):
        n_touched, best, best_score = 0, own, -np.inf
        for entry in range(graph.indptr[node], graph.indptr[node + 1]):
            community = labels[graph.indices[entry]]
            if links[community] == 0.0:
                touched[n_touched] = community
                n_touched += 1
            links[community] += graph.weights[entry]
        for community in touched[:n_touched]:
            score = links[community] * log_odds[community] + log(sizes[community])
            if score > best_score:
                best, best_score = community, score
        within += links[best]
        for community in touched[:n_touched]:
            links[community] = 0.0
        if best == own:
            continue
        labels[node] = best
        n_moved += 1
        for community, sign in ((own, -1), (best, 1)):
            volumes[community] += sign * graph.strengths[node]
            sizes[community] += sign
            log_odds[community] = _log_odds(volumes[community], graph.total, mixing)
    return within / max(graph.total, LEAST_VOLUME), n_moved


@compiled(error_model="numpy")
def _log_odds(volume: float, total: float, mixing: float) -> float:
    return log(1.0 + (1.0 - mixing) / mixing * total / max(volume, LEAST_VOLUME))
