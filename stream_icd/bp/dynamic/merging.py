"""Merges: remembered communities that the current edges no longer separate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.description_length.agglomeration import NO_CODE, Objective, community_nats
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, coarsen
from stream_icd.bp.planted_partition.likelihood import Floats, Groups
from stream_icd.graphs.compiled import compiled


def merged_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    remembered: Labels,
    n_remembered: int,
    mixing: float,
) -> Labels:
    """The community that each of 0..n_communities-1 is now part of, (n_communities,).

    Pairs are merged in order of decreasing gain, each community at most once. A merged pair takes
    the label of its remembered community (below n_remembered), else of the one with more nodes.
    There must be at least half as many edges between the two as one community of their size would
    have there, unless one is what is left of a remembered community that most nodes have left.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without a remembered community.
    """
    coarse = coarsen(graph, labels, n_communities)
    rows = np.repeat(np.arange(n_communities), np.diff(coarse.indptr))
    outside = np.bincount(rows, coarse.weights, n_communities)
    within = np.maximum(coarse.strengths - outside, 0.0) / 2
    once = rows < coarse.indices
    rows, columns, between = rows[once], coarse.indices[once], coarse.weights[once]
    sizes, is_left_over = _sizes(labels, remembered, n_communities)
    objective = Objective(mixing, 0.0, NO_CODE)
    groups = Groups(within, coarse.strengths, sizes)
    gains = _gains(groups, rows, columns, between, is_left_over, coarse.total, objective)
    into = np.arange(n_communities, dtype=np.int32)
    free = np.ones(n_communities, np.bool_)
    gaining = np.flatnonzero(gains > 0)
    for at in gaining[np.argsort(-gains[gaining], kind="stable")]:
        pair = [rows[at], columns[at]]
        if free[pair].all():
            small, large = sorted(pair, key=lambda c: (c < n_remembered, sizes[c], -c))
            into[small], free[pair] = large, False
    return into


@compiled()
def _sizes(
    labels: Labels, remembered: Labels, n_communities: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """The nodes of each community, and whether most of those remembered in it have left it."""
    sizes, before = np.zeros(n_communities), np.zeros(n_communities)
    stayed = np.zeros(n_communities)
    for node, label in enumerate(labels):
        sizes[label] += 1
        if remembered[node] >= 0:
            before[remembered[node]] += 1
            stayed[label] += remembered[node] == label
    return sizes, 2 * stayed < before


@compiled()
def _gains(
    groups: Groups,
    rows: NDArray[np.int64],
    columns: NDArray[np.int32],
    between: Floats,
    is_left_over: NDArray[np.bool_],
    total: float,
    objective: Objective,
) -> Floats:
    """The gain of merging each pair, in nats; 0 if the two are not alike and none is left over."""
    within, volumes, _ = groups
    own, gains = np.empty(len(within)), np.zeros(len(rows))
    for one in range(len(own)):
        own[one] = community_nats(within[one], volumes[one], 0.0, total, objective)
    for pair in range(len(rows)):
        left, right = rows[pair], columns[pair]
        half_expected = np.sqrt(within[left] * within[right])
        alike = 0 < half_expected <= between[pair]
        if alike or is_left_over[left] or is_left_over[right]:
            joint, volume = (
                within[left] + within[right] + between[pair],
                volumes[left] + volumes[right],
            )
            gains[pair] = (
                community_nats(joint, volume, 0.0, total, objective) - own[left] - own[right]
            )
    return gains
