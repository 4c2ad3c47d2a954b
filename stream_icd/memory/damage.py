"""Windows that lack most of their nodes: a fault of the source, not a change of the graph.

If a source loses nodes for one window, the communities of the others say little about those that
are missing. Most would seem to have ended or to be parts of others. So such a window is detected
with the memory there is, which stays as it is.

If the windows after it lack them too, their nodes are followed with the evidence from before, which
stays as it is: the communities of a tenth of the nodes alone would be others (of the Internet, they
are). Once the nodes come back, all are known as they were.

A graph that breaks with its past has other nodes, or other edges among them. One that shrinks for
good is small in each later window, too.
"""

from __future__ import annotations

import numpy as np

from stream_icd.arrays import Ids
from stream_icd.memory.bounds import LONGEST_RUN, cost
from stream_icd.memory.memory import Memory
from stream_icd.snapshot import Window
from stream_icd.tracking.gaps import missed_windows

LEAST_KNOWN = 0.9
"""Of the nodes of a damaged window, at least this fraction were in the one before."""


def lacks_most(memory: Memory, at: Ids) -> bool:
    """Return whether a window lacks half of the last whole one's nodes, and has few others.

    Args:
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
