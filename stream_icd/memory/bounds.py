"""How much of a graph is remembered, and which windows are not.

What is remembered is read with each window, so its size decides what the window costs. Without a
bound, a few windows of many new nodes would make all small windows after them expensive.

A source can lose most nodes for one window: its communities say little about those that are
missing, which would seem to have ended. So such a window is detected with the memory there is,
which stays as it is. If the windows after it lack them too, their nodes are followed with the
evidence from before: the communities of a tenth of the nodes alone would be others (of the
Internet, they are). Once the nodes come back, all are known as they were. A graph that breaks with
its past has other nodes, or other edges among them; one that shrinks for good is small in each
later window, too. To tell them apart, nodes that come again and again earn *credit*, and small
windows spend it: each node that is remembered beyond the bound costs one. Nodes that are seen once
earn nothing.
"""

from __future__ import annotations

import numpy as np

from stream_icd.arrays import Ids
from stream_icd.memory.alignment import of_nodes
from stream_icd.memory.memory import MOST_COUNTED, Memory
from stream_icd.snapshot import Window
from stream_icd.tracking.windows import missed_windows

MOST_PER_NODE = 4
"""Nodes remembered for each node of the last window, at most."""

ALWAYS = 1000
"""Nodes that may be remembered of any graph. They take a millisecond and 20 kB. Of contacts in a
school by the hour, six times the people of an hour are remembered."""

LONGEST_RUN = 32
"""For how many small windows credit lasts, at most. After as many, a graph has shrunk for good."""

FORGOTTEN = 0.25
"""An absent node without evidence is forgotten when its beliefs add up to less than this."""

LEAST_KNOWN = 0.9
"""Of the nodes of a damaged window, at least this fraction were in the one before."""


def room_for(n_nodes: int, n_before: int, credit: int) -> int:
    """Return how many nodes may be remembered after a window.

    After a much larger window, half of them with each window, until they are few enough. So that
    window costs the later ones no more than itself again, in all.

    n_nodes: nodes of the window; n_before: nodes remembered before it.
    credit: see `Memory.credit`.
    """
    return max(MOST_PER_NODE * n_nodes, ALWAYS, n_before // 2, min(n_before, credit))


def cost(n_nodes: int, n_remembered: int) -> int:
    """Return how much credit it takes to remember so many nodes beside a window of `n_nodes`."""
    return max(n_remembered - max(MOST_PER_NODE * n_nodes, ALWAYS), 0)


def credit_after(credit: int, n_again: int, n_nodes: int, n_remembered: int) -> int:
    """Return the credit after a window of `n_nodes`, after which `n_remembered` are remembered.

    n_again: nodes that have edges in the window and had some in the one before.
    """
    left = max(credit - cost(n_nodes, n_remembered), 0)
    return min(left + n_again, LONGEST_RUN * n_remembered, MOST_COUNTED)


def remembered_nodes(after: Memory, rows: Ids, most_nodes: int) -> Ids:
    """Return the nodes that are remembered: of the window, with evidence, or with beliefs.

    after: the memory of all nodes after the window.
    rows: the nodes of the window; these stay, whatever is believed.
    """
    beliefs = after.present.known.shares.sum(axis=1)
    stays = beliefs >= FORGOTTEN
    for hypothesis in after.hypotheses:
        stays |= np.diff(hypothesis.evidence.indptr) > 0
    beliefs[rows], stays[rows] = len(beliefs), True
    stay = np.flatnonzero(stays)
    if len(stay) <= most_nodes:
        return stay
    return np.sort(stay[np.argsort(-beliefs[stay], kind="stable")[:most_nodes]])


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


def lacks_most(memory: Memory, at: Ids) -> bool:
    """Return whether a window lacks half of the last whole one's nodes, and has few others.

    at: the place of each of its nodes in the memory, `(n,)`; -1 for new ones.
    """
    if not memory.n_nodes or memory.n_lacking >= LONGEST_RUN:
        return False
    if 2 * len(at) > np.count_nonzero(memory.seen):
        return False
    if memory.credit < cost(len(at), memory.n_nodes):
        return False
    return bool(np.count_nonzero(memory.seen[at[at >= 0]]) >= LEAST_KNOWN * len(at))


def is_first(memory: Memory, window: Window) -> bool:
    """Return whether a window that lacks most nodes is the first one, right after a whole one."""
    return not memory.n_lacking and not missed_windows(memory.window, window)
