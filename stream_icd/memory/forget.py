"""The memory of a graph that starts anew."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from stream_icd.memory.memory import N_BELIEFS, Memory
from stream_icd.snapshot import Window

BEFORE_ALL = Window(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


def forgotten(memory: Memory) -> Memory:
    """Return a memory of no nodes and no windows, which keeps only the ids that are used up."""
    return Memory(
        window=BEFORE_ALL,
        nodes=memory.nodes.slice(0, 0),
        communities=np.empty((0, N_BELIEFS), np.int64),
        beliefs=np.empty((0, N_BELIEFS), np.float32),
        mixing=0.0,
        stay=0.0,
        next_id=memory.next_id,
    )
