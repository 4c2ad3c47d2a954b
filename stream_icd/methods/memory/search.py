"""The communities of a sum of windows: of least description, among the last ones and new ones."""

from __future__ import annotations

import numpy as np

from stream_icd.core.arrays import Labels
from stream_icd.methods.bp.agglomeration import agglomerate, connected
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import LevelGraph, compact
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_beyond_chance
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import measured


def searched(
    graph: LevelGraph, parameters: BpParameters, before: Labels, anew: bool, seed: int
) -> tuple[Labels, bool]:
    """Return the communities of a graph, (n,), and whether a search has corrected the last ones.

    These are the last ones, or those of a search or of beliefs that start from the last ones, or
    the best of both: pieces that are together in both, united while that shortens the description.
    A single community counts if a search finds no other.

    graph: all of its nodes have edges.
    before: (n,) the last communities, `NOBODY` for new nodes.
    anew: whether to search the graph as if nothing was known of it.
    """
    last = _with_singles(before)
    start = agglomerate(graph, last)
    anew = anew or not start.any()
    rng = np.random.default_rng(seed)
    if anew:
        found = found_exactly(graph, parameters, None, rng).labels
    else:
        found = _gone_on(graph, start, parameters, rng)
    tried = [found, agglomerate(graph, common_pieces(last, found)), start]
    tried = [one for one in tried if one.any() or not found.any()]
    best = min(tried, key=lambda one: measured(graph, one).bits)
    labels = compact(connected(graph, best, may_be_alone=not parameters.search))[0]
    return labels, anew and not np.array_equal(labels, compact(start)[0])


def common_pieces(one: Labels, other: Labels) -> Labels:
    """Return pieces of nodes that are together in both partitions, (n,)."""
    pairs = one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other
    pieces: Labels = np.unique(pairs, return_inverse=True)[1].astype(np.int32)
    return pieces


def _with_singles(before: Labels) -> Labels:
    """Return the labels with a community of its own for each new node."""
    labels, new = before.copy(), np.flatnonzero(before < 0)
    labels[new] = int(before.max(initial=-1)) + 1 + np.arange(len(new))
    return compact(labels)[0]


def _gone_on(
    graph: LevelGraph, start: Labels, parameters: BpParameters, rng: np.random.Generator
) -> Labels:
    """Return the communities that beliefs, or local moves if modularity decides, make of these."""
    if not parameters.search and parameters.mixing is None:
        return maximise_modularity(graph, parameters.resolution, rng, start)
    k = int(start.max()) + 1
    model = PlantedModel(bounded_mixing(mixing_beyond_chance(graph, start, k)), 1.0, k)
    return compact(believe(graph, start, k, model, parameters.sweeps, exact=False).likeliest)[0]
