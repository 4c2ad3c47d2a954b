"""How much of a graph is remembered: in proportion to its recent windows.

What is remembered is read with each window, so its size decides what the window costs. Without a
bound, a few windows of many new nodes would make all small windows after them expensive.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from stream_icd.memory.memory import NO_COMMUNITY, Memory

MOST_PER_NODE = 4
"""Nodes remembered for each node of the last window, at most."""

ALWAYS = 1000
"""Nodes that may be remembered of any graph. They take a millisecond and 20 kB. Of contacts in a
school by the hour, six times the people of an hour are remembered."""

LESS_A_WINDOW = 2
"""After a much larger window, what is remembered shrinks by this factor a window at most. So that
window costs the later ones no more than itself again, in all."""


def room_for(n_nodes: int, n_before: int) -> int:
    """Return how many nodes may be remembered after a window.

    Args:
        n_nodes: nodes of the window.
        n_before: nodes remembered before it.
    """
    return max(MOST_PER_NODE * n_nodes, n_before // LESS_A_WINDOW, ALWAYS)


def cut(memory: Memory, most_nodes: int) -> Memory:
    """Return the memory of at most so many nodes: those with the strongest beliefs.

    So nodes go first that have been away longest.
    """
    if memory.n_nodes <= most_nodes:
        return memory
    weakest_last = np.argsort(-memory.beliefs.sum(axis=1), kind="stable")
    kept = np.zeros(memory.n_nodes, np.bool_)
    kept[weakest_last[:most_nodes]] = True
    rival = memory.rival
    if rival is not None:
        some = rival[kept]
        known = some != NO_COMMUNITY
        some[known] = np.unique(some[known], return_inverse=True)[1]
        rival = some
    return replace(
        memory,
        nodes=memory.nodes.filter(pa.array(kept)),
        communities=memory.communities[kept],
        beliefs=memory.beliefs[kept],
        rival=rival,
    )
