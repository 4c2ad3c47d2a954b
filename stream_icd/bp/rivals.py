"""Rivals: communities found by beliefs, where modularity decides though it says little.

A single window can show so little that its description by modularity is the shortest, while its
communities follow the planted model. Memory would then hold on to those of modularity. So such a
window is also clustered by belief propagation, without memory, every second window. Neither result
has seen the edges of the next window: the one that makes them more probable, under the planted
model (`quality.hidden_edges`), is the better memory.
"""

from __future__ import annotations

import numpy as np

from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.next_window import nats_saved

WEAK = 0.5
"""Communities of modularity have a rival if they save fewer nats per edge of the current window. On
validation graphs of the planted model where it decides, they save 0.1 to 0.3; on Internet, mails
and taxis, 1.3 to 1.8."""


def is_weak(graph: LevelGraph, remembered: Labels) -> bool:
    """Whether remembered communities say little about this window's edges.

    remembered: (n,) labels from 0 on, -1 for nodes without one.
    """
    saved, weight = nats_saved(graph, remembered)
    return saved < WEAK * weight


def rival_wins(graph: LevelGraph, rival: Labels, remembered: Labels) -> bool:
    """Whether the rival communities make the edges of this window more probable.

    rival, remembered: (n,) labels from 0 on, -1 for nodes without one: edges of these count for
    neither.
    """
    both = (rival >= 0) & (remembered >= 0)
    ours, theirs = (
        nats_saved(graph, np.where(both, labels, -1).astype(np.int32))[0]
        for labels in (remembered, rival)
    )
    return theirs > ours
