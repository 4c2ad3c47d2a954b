"""Rivals: communities found without memory, to be compared with those found with it.

Where a single window shows next to nothing, memory can hold on to communities that were wrong. So
the last window is also clustered without memory, every second window. Neither result has seen the
edges of the current window: the one that makes them more probable, under the planted model
(`quality.hidden_edges`), is the better memory.
"""

from __future__ import annotations

import numpy as np

from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.lift import groups_of
from stream_icd.bp.mixing import MIXING_RANGE

WEAK = 0.15
"""Remembered communities have a rival if they save fewer nats per edge of the current window."""


def is_weak(graph: LevelGraph, remembered: Labels) -> bool:
    """Whether remembered communities say little about this window's edges.

    remembered: (n,) labels from 0 on, -1 for nodes without one.
    """
    saved, weight = _saved(graph, remembered)
    return saved < WEAK * weight


def rival_wins(graph: LevelGraph, rival: Labels, remembered: Labels) -> bool:
    """Whether the rival communities make the edges of this window more probable.

    rival, remembered: (n,) labels from 0 on, -1 for nodes without one: edges of these count for
    neither.
    """
    both = (rival >= 0) & (remembered >= 0)
    ours, theirs = (
        _saved(graph, np.where(both, labels, -1).astype(np.int32))[0]
        for labels in (remembered, rival)
    )
    return theirs > ours


def _saved(graph: LevelGraph, labels: Labels) -> tuple[float, float]:
    """Nats saved on the edges between labelled nodes by their communities, and the edges' weight.

    Each such edge counts log(μ + [same community] (1 − μ) 2E / vol_c).
    """
    groups = groups_of(graph, labels, int(labels.max(initial=-1)) + 1)
    anywhere = groups_of(graph, np.where(labels >= 0, 0, -1).astype(np.int32), 1)
    edges, volume = float(anywhere.within[0]), float(anywhere.volumes[0])
    if not edges:
        return 0.0, 0.0
    within, shares = groups.within.sum(), groups.volumes / volume
    chance = (shares**2).sum()
    mixing = np.clip((1 - within / edges) / max(1 - chance, 1e-9), *MIXING_RANGE)
    lifts = np.log(mixing + (1 - mixing) / np.maximum(shares, 1e-9))
    saved = (groups.within * lifts).sum() + (edges - within) * np.log(mixing)
    return float(saved), edges
