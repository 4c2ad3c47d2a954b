"""How much of a graph is remembered: in proportion to its recent windows.

What is remembered is read with each window, so its size decides what the window costs. Without a
bound, a few windows of many new nodes would make all small windows after them expensive.

A source can lose most nodes for many windows, and the communities of the others must not lose their
ids meanwhile. So nodes that come again and again earn *credit*, and small windows spend it: each
node that is remembered beyond the bound costs one. Nodes that are seen once earn nothing.
"""

from __future__ import annotations

import numpy as np

from stream_icd.memory.alignment import of_nodes
from stream_icd.memory.memory import MOST_COUNTED, Memory

MOST_PER_NODE = 4
"""Nodes remembered for each node of the last window, at most."""

ALWAYS = 1000
"""Nodes that may be remembered of any graph. They take a millisecond and 20 kB. Of contacts in a
school by the hour, six times the people of an hour are remembered."""

LONGEST_RUN = 32
"""For how many small windows credit lasts, at most. After as many, a graph has shrunk for good."""


def room_for(n_nodes: int, n_before: int, credit: int) -> int:
    """Return how many nodes may be remembered after a window.

    After a much larger window, half of them with each window, until they are few enough. So that
    window costs the later ones no more than itself again, in all.

    Args:
        n_nodes: nodes of the window.
        n_before: nodes remembered before it.
        credit: see `Memory.credit`.
    """
    return max(MOST_PER_NODE * n_nodes, ALWAYS, n_before // 2, min(n_before, credit))


def cost(n_nodes: int, n_remembered: int) -> int:
    """Return how much credit it takes to remember so many nodes beside a window of `n_nodes`."""
    return max(n_remembered - max(MOST_PER_NODE * n_nodes, ALWAYS), 0)


def credit_after(credit: int, n_again: int, n_nodes: int, n_remembered: int) -> int:
    """Return the credit after a window.

    Args:
        credit: that before it.
        n_again: nodes that have edges in the window and had some in the one before.
        n_nodes: nodes of the window.
        n_remembered: nodes remembered after it.
    """
    left = max(credit - cost(n_nodes, n_remembered), 0)
    return min(left + n_again, LONGEST_RUN * n_remembered, MOST_COUNTED)


def cut(memory: Memory, most_nodes: int) -> Memory:
    """Return the memory of at most so many nodes: those with the strongest beliefs.

    Of equal ones, those with most evidence. So nodes go first that have been away longest.
    """
    if memory.n_nodes <= most_nodes:
        return memory
    present = memory.present
    strengths = np.asarray(present.evidence.sum(axis=1)).ravel()
    weakest_last = np.lexsort((-strengths, -present.known.shares.sum(axis=1)))
    return of_nodes(memory, np.sort(weakest_last[:most_nodes]))
