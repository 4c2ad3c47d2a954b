"""Windows that lack most of their nodes: a fault of the source, not a change of the graph.

If a source loses nodes for one window, the communities of the others say little about those that
are missing. Most would seem to have ended or to be parts of others. So such a window is detected
with the memory there is, which stays as it is.

A graph that breaks with its past has other nodes, or other edges among them. One that shrinks for
good is small in the next window, too, which is then taken as it is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_icd.memory.memory import Memory
from stream_icd.memory.recall import missed_windows
from stream_icd.node_ids import places
from stream_icd.snapshot import Window

MOST_LEFT = 0.5
"""A damaged window has at most this many nodes for each of the last one."""

LEAST_KNOWN = 0.9
"""Of its nodes, at least this fraction are remembered as recent."""

RECENT = 0.8
"""A node is recent if the beliefs about it add up to this: it was in one of the last windows."""


def is_damaged(memory: Memory | None, nodes: pa.Array, window: Window) -> bool:
    """Return whether a window right after the last one lacks most nodes, and has no others."""
    if memory is None or missed_windows(memory.window, window):
        return False
    if len(nodes) > MOST_LEFT * memory.n_present:
        return False
    at = places(nodes, memory.nodes)
    is_recent = memory.beliefs[at[at >= 0]].sum(axis=1) >= RECENT
    return bool(np.count_nonzero(is_recent) >= LEAST_KNOWN * len(nodes))
