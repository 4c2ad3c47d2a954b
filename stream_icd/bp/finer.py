"""Finer communities: parts of remembered ones that predict the edges of the next window better.

Two communities that were joined by mistake often stay joined, window after window: what a single
window gains by their separation is less than it costs to encode which node is in which (`splits`).
So each window names parts of its communities, and the next one compares the two. Neither has seen
these edges, so nothing needs to be encoded: the parts are remembered instead if they make the edges
inside the community more probable under the planted model (`lift`).
"""

from __future__ import annotations

import numpy as np

from stream_icd.bp.breaks import mixing_beyond_chance
from stream_icd.bp.level_graph import Labels, LevelGraph, coarsen, compact, within_groups
from stream_icd.bp.lift import Floats, Groups, groups_of
from stream_icd.bp.mixing import MIXING_RANGE
from stream_icd.bp.splits import Pieces, joined_pieces, piece_names

LEAST_GAIN, EACH_FURTHER = 10.0, 2.0
"""Nats by which two parts must predict better than their community, and each further one. All
communities are tested in each window: with 3 nats, chance gives one more community in every few
windows, which soon ends again."""


def finer_communities(
    graph: LevelGraph, remembered: Labels, parts: Labels, n_remembered: int
) -> Labels:
    """Remembered communities, some of them replaced by their parts: labels (n,), -1 for none.

    Parts that predict better together are joined first. The mixing is that of the parts: what is
    remembered of it may come from communities that are too large. The largest part of a community
    keeps its label; the others are numbered from n_remembered on.

    remembered: (n,) labels 0..n_remembered-1, -1 for nodes without one.
    parts: (n,) labels from 0 on, -1 for none; if a part has nodes of several communities, only the
        nodes of the same one belong together.
    """
    known = remembered >= 0
    whole = np.where(known, remembered, n_remembered).astype(np.int32)
    key = whole.astype(np.int64) * (int(parts.max(initial=-1)) + 2) + parts + 1
    of_node, n_pieces = compact(np.unique(key, return_inverse=True)[1].astype(np.int32))
    if n_pieces == len(np.unique(whole)):
        return remembered
    parents = np.empty(n_pieces, np.int32)
    parents[of_node] = whole
    pieces = Pieces(of_node, groups_of(graph, of_node, n_pieces), parents)
    coarse = coarsen(within_groups(graph, whole), of_node, n_pieces)
    own = mixing_beyond_chance(graph, of_node, n_pieces)
    mixing = float(np.clip(own, *MIXING_RANGE))
    pieces = joined_pieces(coarse, pieces, mixing, None)
    n_parts = np.bincount(pieces.parents, minlength=n_remembered + 1)
    by_parts = np.bincount(pieces.parents, _saved(pieces.groups, graph, mixing), n_remembered + 1)
    by_whole = _saved(groups_of(graph, whole, n_remembered + 1), graph, mixing)
    better = by_parts - by_whole > LEAST_GAIN + EACH_FURTHER * (n_parts - 2)
    better &= n_parts > 1
    better[n_remembered] = False
    names = piece_names(pieces, n_remembered, better)
    return np.where(known, names[pieces.labels], remembered).astype(np.int32)


def _saved(groups: Groups, graph: LevelGraph, mixing: float) -> Floats:
    """Nats that each group saves on the edges inside it, (K,)."""
    odds = (1 - mixing) / mixing * graph.total
    saved: Floats = groups.within * np.log1p(odds / np.maximum(groups.volumes, 1e-300))
    return saved
