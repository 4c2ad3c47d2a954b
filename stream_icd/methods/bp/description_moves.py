"""Local moves of single nodes that shorten the description of a graph (`quality.partition`).

Belief propagation and modularity find partitions whose description is short. Most of them are
shorter after a few moves.
"""

from __future__ import annotations

from math import log, log1p

import numpy as np

from stream_icd.core.arrays import Floats, Labels
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.level_graph import ROUNDING, LevelGraph, compact
from stream_icd.methods.bp.likelihood import MIXING_RANGE, groups_of


def moved_by_description(graph: LevelGraph, labels: Labels, rng: np.random.Generator) -> Labels:
    """Move nodes to the linked community that shortens the description most.

    First all nodes in random order, then only neighbours of moved nodes, until none gains; in
    O(E log E). The mixing of the model stays that of the first labels. Returns labels (n,), 0..K-1;
    no community is founded.

    graph: of single nodes, all of which have edges.
    labels: (n,), from 0 on.
    """
    labels, k = compact(labels)
    within, volumes = groups_of(graph, labels, k)
    mixing = min(max(1 - 2 * float(within.sum()) / graph.total, ROUNDING), MIXING_RANGE[1])
    lift = (1 - mixing) / mixing * graph.total
    queue = rng.permutation(graph.n_nodes).astype(np.int32)
    _move(graph, labels, queue, within, volumes, lift)
    return compact(labels)[0]


@compiled(error_model="numpy")
def _move(
    graph: LevelGraph, labels: Labels, queue: Labels, within: Floats, volumes: Floats, lift: float
) -> None:
    """Move the nodes, in place.

    What a move loses at least, and gains at most, is told without a logarithm: by the odds of an
    edge in both communities before it. Few moves can gain, and only these are weighed exactly.
    """
    indptr, indices, weights = unsigned(graph.indptr), unsigned(graph.indices), graph.weights
    labels, queue, strengths = unsigned(labels), unsigned(queue), graph.strengths
    n_nodes, k = len(queue), len(within)
    n_communities, sizes = k, np.zeros(k)
    for label in labels:
        sizes[label] += 1
    # Of each community: log odds of an edge inside it, and log (size + 1), the code of one more.
    odds, codes = np.log1p(lift / volumes), np.log(sizes + 1)
    linked, touched = np.zeros(k), np.empty(k + 1, np.uint32)
    waiting, head, n_waiting = np.ones(n_nodes, np.bool_), 0, n_nodes
    n_visits, most_visits = 0.0, len(indices) * np.log2(len(indices) + 1)
    while n_waiting and n_visits <= most_visits:
        node = queue[head]
        head = head + 1 if head + 1 < n_nodes else 0
        n_waiting -= 1
        n_visits += indptr[node + 1] - indptr[node]
        waiting[node] = False
        own, strength, n_touched = labels[node], strengths[node], 0
        for entry in range(indptr[node], indptr[node + 1]):
            label = labels[indices[entry]]
            touched[n_touched] = label  # without a branch, which the processor would guess
            n_touched += linked[label] == 0.0
            linked[label] += weights[entry]
        to_own, left = linked[own], within[own] - linked[own]
        rest = max(volumes[own] - strength, 1e-300)  # 0 beside a hub, by rounding
        is_last = sizes[own] == 1
        saved = log(max(n_nodes - n_communities + 1, 1) / max(n_communities - 1, 1)) * is_last
        least_lost = to_own * odds[own] + log(sizes[own]) - saved
        if not is_last:
            least_lost -= left * strength / rest
        best, best_gain, lost, is_lost_known = own, ROUNDING, 0.0, False
        for label in touched[:n_touched]:
            to_label = linked[label]
            linked[label] = 0.0
            if label == own or to_label * odds[label] + codes[label] - least_lost <= best_gain:
                continue
            if not is_lost_known:
                lost, is_lost_known = within[own] * odds[own] + log(sizes[own]) - saved, True
                if not is_last:
                    lost -= left * log1p(lift / rest)
            inside = within[label] + to_label
            gain = inside * log1p(lift / (volumes[label] + strength)) - lost
            gain += codes[label] - within[label] * odds[label]
            if gain > best_gain:
                best, best_gain, best_inside = label, gain, inside
        if best == own:
            continue
        labels[node] = best
        within[own], volumes[own], sizes[own] = left, rest, sizes[own] - 1
        within[best], volumes[best] = best_inside, volumes[best] + strength
        sizes[best] += 1
        n_communities -= is_last
        for label in (own, best):
            odds[label], codes[label] = log1p(lift / volumes[label]), log(sizes[label] + 1)
        for entry in range(indptr[node], indptr[node + 1]):
            neighbour = indices[entry]
            if not waiting[neighbour] and labels[neighbour] != best:
                waiting[neighbour] = True
                tail = head + n_waiting
                queue[tail if tail < n_nodes else tail - n_nodes] = neighbour
                n_waiting += 1
