"""What a memory holds about the nodes of a later window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from stream_icd.bp.recalled import Recalled, nothing_recalled
from stream_icd.memory.memory import NO_COMMUNITY, Memory
from stream_icd.node_ids import places
from stream_icd.snapshot import Window

LONGEST_STAY = 0.98
"""Upper limit of η for absent nodes, so that each is forgotten eventually."""


def recall(memory: Memory | None, nodes: pa.Array, window: Window, stay: float) -> Recalled:
    """Return what the memory holds about these nodes in this window.

    stay: η to use with a memory of a single window.
    """
    if memory is None:
        return nothing_recalled(len(nodes))
    place = places(nodes, memory.nodes)
    known = place >= 0
    recalled = nothing_recalled(len(nodes), memory.next_id)
    recalled.ids[known] = memory.communities[place[known]]
    kept = kept_a_window(memory.stay or stay) ** missed_windows(memory.window, window)
    recalled.shares[known] = memory.beliefs[place[known]] * np.float32(kept)
    rival = None
    if memory.rival is not None:
        rival = np.full(len(nodes), NO_COMMUNITY, np.int32)
        rival[known] = memory.rival[place[known]]
    return replace(
        recalled,
        mixing=memory.mixing,
        stay=memory.stay,
        believed=memory.believed,
        pull=memory.pull * kept,
        rival=rival,
    )


def missed_windows(last: Window, window: Window) -> int:
    """Return how many windows of the length of `window` lie between `last` and `window`."""
    length = window.end - window.start
    return max(round((window.start - last.end) / length), 0) if length else 0


def kept_a_window(stay: float) -> float:
    """Return η for nodes without news of a window."""
    return min(stay, LONGEST_STAY)
